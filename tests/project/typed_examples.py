"""One use of every public function, as a user's program has it. `mypy --strict` accepts it."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.tensorboard.writer import SummaryWriter

import gradwalk
from gradwalk import (
    Check,
    CompareWidget,
    Contribution,
    Descent,
    Difference,
    ErrorShare,
    Explanation,
    Failure,
    Finding,
    GraphWidget,
    Interact,
    NumericsComparison,
    NumericsRow,
    Plan,
    RecordedStep,
    Recording,
    WhatIf,
)


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
    shown.expand(0)
    shown.quiz("grad", nodes=["loss"])
    right: bool = shown.answer("loss", "1")
    print(grads, findings[0].kind, text, path, data, pdf, page, right, shown.graph.nodes)


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
    shares: list[ErrorShare] = numbers.contributors("w")
    print(found, picture, rows, shares)


def questions(model: Net, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Ask."""
    recording: Recording = gradwalk.record(loss, max_bytes=2**20)
    recording.cursor = 0
    explanation: Explanation = gradwalk.explain_grad(model, recording)
    kinds: list[str] = [part.kind for part in explanation.parts]
    findings: list[Finding] = gradwalk.diagnose(recording, names=model, optimizer=optimizer)
    effect: WhatIf = gradwalk.what_if(loss, scale={"loss": 0.5})
    parts: list[Contribution] = gradwalk.contributions(model.linear.weight, loss)
    custom: Check = gradwalk.check(loss)
    with gradwalk.watch():
        model(torch.ones(1, 4))
    print(kinds, findings, effect.named("half"), parts, custom.agrees, str(explanation).upper())


def memory(model: Net, loss: torch.Tensor, writer: SummaryWriter) -> None:
    """Plan and measure memory."""
    step: Plan = gradwalk.plan(model, torch.ones(2, 4), loss=torch.sum)
    held = gradwalk.held(loss)
    gradwalk.to_tensorboard(writer, loss, tag="graph")
    failure: Failure | None = gradwalk.last_failure()
    print(step.peak, held, failure)


def sliders() -> None:
    """Interact."""

    def neuron(w: torch.Tensor) -> torch.Tensor:
        return (w - 1) ** 2

    box: Interact = gradwalk.interact(neuron, w=(-5.0, 5.0))
    step: Descent = box.descend(lr=0.1)
    found: dict[str, Difference | list[Difference]] = box.differences()
    print(step.after, found, box.widget)
