"""One use of every public function, as a user's program has it. `mypy --strict` accepts it."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard.writer import SummaryWriter

import gradwalk
from gradwalk import GraphWidget
from gradwalk.results import (
    Advice,
    Check,
    CompareWidget,
    Contribution,
    Dependencies,
    Descent,
    Difference,
    Explanation,
    FailedInput,
    Failure,
    Finding,
    FollowedRun,
    GraphNode,
    HeldGraph,
    HeldTensor,
    Interact,
    Measurement,
    ModulePlan,
    NodeMeasure,
    NumericsComparison,
    NumericsRow,
    Place,
    Plan,
    RecordedStep,
    Recording,
    RunFinding,
    StepContribution,
    WhatIf,
)
from gradwalk.testing import assert_gradients
from gradwalk.types import Edge, Outputs, TensorNames


class Net(nn.Module):
    """A small model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one number per row."""
        out: torch.Tensor = self.linear(x)
        return out


def widget(loss: torch.Tensor, folder: Path) -> None:
    """Draw a graph, step through it and write it."""
    shown = GraphWidget(loss, names={"loss": loss}, direction="right")
    shown.backward(retain_graph=True)
    shown.backward(retain_graph="if_possible", create_graph=False)
    steps: list[RecordedStep] = shown.steps
    grads: list[torch.Tensor | None] = steps[0].grad_outputs
    findings: list[Finding] = shown.diagnose(vanishing=1e-5)
    text: str = shown.to_svg(theme="dark")
    path: Path = shown.to_svg(folder / "graph.svg", width=600)
    data: bytes = shown.to_png(scale=1.0)
    pdf: Path = shown.to_pdf(path=str(folder / "graph.pdf"))
    page: str = shown.to_html(title="A page", source=False)
    shown.step()
    shown.run_to("loss")
    shown.update(loss)
    shown.expand("loss")
    shown.collapse(0)
    shown.step_back(n=2)
    shown.reset()
    shown.reveal()
    shown.select("loss")
    root: GraphNode = shown.node("loss")
    shown.overlay({"loss": 0.5}, label="Share")
    measured: Measurement = shown.measure()
    slowest: NodeMeasure = measured.nodes[0]
    grown: list[HeldGraph] = shown.grows()
    shown.quiz("grad", nodes=["loss"])
    right: bool = shown.answer("loss", "1")
    dot: str = shown.to_dot()
    json: Path = shown.to_json("graph.json", source=False)
    fragment: str = shown.embed(title="A loss")
    nodes = shown.to_networkx().nodes
    shown.close()
    print(root.grad, findings[0].module, findings[0].line)
    print(grads, findings[0].kind, text, path, data, pdf, page, right, nodes)
    print(slowest.seconds * 1e3, [graph.bytes for graph in grown], dot, json, fragment)


def files(loss: torch.Tensor, folder: os.PathLike[str]) -> None:
    """Save and open."""
    path: Path = gradwalk.save(loss, folder, names={"loss": loss}, source=False)
    gradwalk.save([loss, loss], "two.gw")
    opened: GraphWidget | CompareWidget = gradwalk.load(path)
    gradwalk.load(["run-0.gw", Path("run-1.gw")], rank=1)
    print(opened.steps, gradwalk.capture(loss).nodes, gradwalk.make_dot(loss))


def several(one: torch.Tensor, other: torch.Tensor) -> None:
    """Compare."""
    both: CompareWidget = gradwalk.compare({"a": one, "b": other}, names=Net())
    both.update({"a": one, "b": other})
    found: dict[str, list[Finding]] = both.diagnose()
    picture: str = both.to_svg()
    numbers: NumericsComparison = gradwalk.compare_numerics(one, other, rtol=1e-3, atol=1e-6)
    rows: list[NumericsRow] = numbers.rows
    print(found, picture, rows)


def questions(model: Net, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Ask."""
    recording: Recording = gradwalk.record(loss, max_bytes=2**20)
    recording.cursor = 0
    recording.step(2)
    recording.step_back()
    recording.run_to("loss")
    recording.reset()
    arrived: list[StepContribution] = recording.steps[0].contributions
    explanation: Explanation = gradwalk.explain_grad(model, recording)
    kinds: list[str] = [part.kind for part in explanation.parts]
    findings: list[Finding] = gradwalk.diagnose(recording, names=model, optimizer=optimizer)
    effect: WhatIf = gradwalk.what_if(loss, scale={"loss": 0.5})
    parts: list[Contribution] = gradwalk.contributions(model.linear.weight, loss)
    mixing: Dependencies = gradwalk.dependencies(loss.exp(), model.linear.weight, most=4)
    custom: Check = gradwalk.check(loss)
    with gradwalk.watch():
        model(torch.ones(1, 4))
    edge: Edge = (0, 0)
    other: WhatIf = gradwalk.what_if(
        recording, cut=[edge], replace={"loss": torch.zeros_like(loss)}
    )
    columns = effect.named("half").beside(other.named("cut"))
    print(mixing, kinds, findings, columns, parts, custom.agrees, str(explanation).upper(), arrived)


def memory(model: Net, loss: torch.Tensor, writer: SummaryWriter) -> None:
    """Plan and measure memory."""
    step: Plan = gradwalk.plan(model, torch.ones(2, 4), loss=torch.sum)
    largest: HeldTensor = step.tensors(limit=1)[0]
    place: Place = step.place(0)
    blocks: dict[str, ModulePlan] = dict(step.modules)
    advice: Advice = step.advise("40GB")
    smaller: Plan = step.apply(advice)
    page: Path = step.to_html("plan.html")
    table = step.to_dataframe()
    one: HeldGraph = gradwalk.held(loss)
    all_graphs: list[HeldGraph] = gradwalk.held()
    gradwalk.to_tensorboard(writer, loss, tag="graph")
    failure: Failure | None = gradwalk.last_failure()
    inputs: list[FailedInput] = [] if failure is None else failure.inputs
    print(step.peak, largest.bytes, place.phase, blocks, smaller.peak, page, table)
    print(one.advice, all_graphs, inputs, step.widget.graph.nodes)


def training(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Follow a training."""
    run: FollowedRun
    with gradwalk.follow(model, optimizer, at=2) as run:
        optimizer.step()
    found: list[RunFinding] = run.findings
    norms: list[dict[str, float]] = run.rows()
    print(run.open(2), run.as_json(), found[0].parameters, norms)


def sliders() -> None:
    """Interact."""

    def neuron(w: torch.Tensor) -> torch.Tensor:
        return (w - 1) ** 2

    box: Interact = gradwalk.interact(neuron, w=(-5.0, 5.0))
    step: Descent = box.descend(lr=0.1)
    found: dict[str, Difference | list[Difference]] = box.differences()
    print(step.after, found, box.widget)


def loss_of(outputs: Outputs, names: TensorNames | None = None) -> GraphWidget:
    """Wrap a function of gradwalk, with its types."""
    return GraphWidget(outputs, names=names, stacklevel=2)


def test_gradients() -> None:
    """Test a model."""
    model = Net()
    assert_gradients(model, model(torch.ones(2, 4)).sum(), finite=True, nonzero=True)
