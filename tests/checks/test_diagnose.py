"""Healthy nets give no finding but memory; each broken one gives the expected finding."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable

import pytest
import torch
from architectures import ARCHITECTURES
from torch import Tensor, nn
from torch.nn import functional as F

from gradwalk import GraphWidget, diagnose, record, watch
from gradwalk.checks.depth import arriving_norms, layers_of
from gradwalk.checks.finding import Finding, finding_models
from gradwalk.graph.labels import in_bytes


def only(findings: list[Finding], kind: str) -> Finding:
    """The one finding beside those about memory and about gradients that add up."""
    usual = ("memory", "accumulated")
    assert [finding.kind for finding in findings if finding.kind not in usual] == [kind], findings
    return next(finding for finding in findings if finding.kind == kind)


def trained(net: nn.Module, inputs: tuple[Tensor, ...], steps: int = 2) -> Tensor:
    """The loss of a net after a few steps, towards a target of its own shape."""
    target = torch.rand_like(net(*inputs).detach())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(net(*inputs), target).backward()
        optimizer.step()
    optimizer.zero_grad()
    return F.mse_loss(net(*inputs), target)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_healthy_net_has_notes_alone(name):
    net, inputs = ARCHITECTURES[name]()
    with watch():
        loss = trained(net, inputs)
    findings = diagnose(record(loss, names=net), names=net)
    assert {finding.severity for finding in findings} <= {"info"}, findings
    # Of two twins of one body, subtracted, the last bias cancels out.
    kinds = {finding.kind for finding in findings}
    assert kinds - {"memory"} == ({"zero"} if name == "siamese" else set()), findings


def deep(activation: Callable[[], nn.Module], layers: int = 20) -> nn.Sequential:
    torch.manual_seed(0)
    each = [module for _ in range(layers) for module in (nn.Linear(16, 16), activation())]
    return nn.Sequential(*each, nn.Linear(16, 1))


def test_a_deep_sigmoid_net_vanishes_by_torchs_own_hooks():
    net = deep(nn.Sigmoid)
    seen: list[float] = []

    def watch_output(module: nn.Module, _: object, output: Tensor) -> None:
        output.register_hook(lambda grad: seen.append(grad.norm().item()))

    hooks = [m.register_forward_hook(watch_output) for m in net if isinstance(m, nn.Linear)]
    x = torch.randn(8, 16)
    net(x).square().mean().backward()
    for hook in hooks:
        hook.remove()
    recording = record(net(x).square().mean(), names=net)
    norms = arriving_norms(recording._pass.run)
    layers = layers_of(recording.graph)
    assert [norms[node] for node in recording._pass.run.steps if node in layers] == pytest.approx(
        seen
    )
    finding = only(diagnose(recording, names=net), "vanishing")
    assert finding.numbers["ratio"] == pytest.approx(seen[-1] / seen[0])
    assert finding.numbers["ratio"] < 1e-4
    assert f"{finding.numbers['ratio']:.3g}" in finding.message
    assert [norms[node] for node in finding.nodes] == pytest.approx([seen[-1], seen[0]])


@pytest.mark.parametrize("watched", [True, False])
def test_a_finding_says_in_which_module_it_is(watched: bool):
    net = deep(nn.Sigmoid)
    with watch() if watched else contextlib.nullcontext():
        loss = net(torch.randn(8, 16)).square().mean()
    widget = GraphWidget(loss, names=net)
    widget.backward()
    finding = only(diagnose(widget), "vanishing")
    assert f"[AddmmBackward0 (node {finding.nodes[0]})]" in finding.message
    widget.close()


def test_its_relu_twin_beside_it_does_not_hide_it():
    broken, healthy = deep(nn.Sigmoid), deep(nn.ReLU, 4)
    x = torch.randn(8, 16)
    loss = (broken(x) + healthy(x)).square().mean()
    names = {"broken": broken, "healthy": healthy}
    recording = record(loss, names=names)
    finding = only(diagnose(recording, names=names), "vanishing")
    assert "broken" in str(
        [recording.graph.nodes[t]["name"] for t in recording.graph.succ[finding.nodes[0]]]
    )


def test_an_rnn_with_large_weights_explodes():
    torch.manual_seed(0)
    weight = (5 * torch.eye(4) + torch.randn(4, 4)).requires_grad_()
    hidden = torch.randn(3, 4)
    for _ in range(20):
        hidden = F.relu(hidden @ weight)
    findings = diagnose(record(hidden.mean(), names={"weight": weight}), names={"weight": weight})
    finding = only(findings, "exploding")
    assert finding.numbers["ratio"] > 1e4


def test_a_relu_behind_a_bias_of_minus_100_is_dead():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    nn.init.constant_(net[2].bias, -100)
    recording = record(net(torch.randn(16, 8)).square().mean(), names=net)
    finding = only(diagnose(recording, names=net), "dead")
    assert finding.numbers == {"share": 1, "dead units": 8, "units": 8}
    (node,) = finding.nodes
    assert recording.graph.nodes[node]["op"] == "ReluBackward0"
    assert finding.severity == "error"


def test_dead_units_are_counted_as_torch_counts_them_also_by_the_gradient():
    torch.manual_seed(0)
    x = torch.randn(16, 10)
    net = nn.Sequential(nn.Conv2d(1, 40, 1), nn.ReLU(), nn.Conv2d(40, 1, 1))
    nn.init.constant_(net[0].bias[:39].detach(), -100)
    loss = net(x[:, None, :, None]).square().mean()
    names = {"net": net}
    by_result = only(diagnose(record(loss, names=names), names=names), "dead")
    by_gradient = only(diagnose(record(loss, names=names, retain_graph=False), names=names), "dead")
    zero = (net[:2](x[:, None, :, None]) == 0).movedim(1, 0).flatten(1).all(1).sum().item()
    assert by_result.numbers == by_gradient.numbers
    assert by_result.numbers["dead units"] == zero == 39
    assert by_result.severity == "warning"
    assert [f.kind for f in diagnose(record(net(x[:, None, :, None]).mean()), names=names, dead=1)]
    assert "dead" not in [f.kind for f in diagnose(record(net(x[:, None, :, None]).mean()), dead=1)]


def test_another_threshold_than_that_of_a_relu_is_no_dead_unit():
    net = nn.Sequential(nn.Linear(2, 2), nn.Threshold(-1.0, -5.0))
    with torch.no_grad():
        net[0].weight.copy_(-torch.eye(2) / 2)
        net[0].bias.zero_()
    loss = net(torch.ones(3, 2)).square().mean()  # all inputs of the threshold are -0.5
    assert "dead" not in [f.kind for f in diagnose(record(loss), names=net)]
    assert net[0].weight.grad.any(), "torch passes a gradient"


def test_the_logarithm_of_zero_bears_a_nan():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    recording = record((x.log() * 0).sum(), names={"x": x})
    finding = only(diagnose(recording, names={"x": x}), "nan")
    assert recording.graph.nodes[finding.nodes[0]]["op"] == "LogBackward0"
    assert finding.numbers["NaN"] == 1
    assert finding.severity == "error"


class TwoHeads(nn.Module):
    def __init__(self, detach: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
        self.detach = detach

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x).relu()
        if self.detach:
            return self.head(y) * self.spare(y.detach()).sigmoid()
        return self.head(y)


def test_an_unused_parameter_is_found_by_its_name():
    net = TwoHeads()
    loss = net(torch.randn(3, 4)).square().mean()
    (unused,) = [f for f in diagnose(record(loss), names=net) if f.kind == "no-grad"]
    assert unused.numbers == {"parameters": 2}
    assert "spare.weight and spare.bias" in unused.message
    loss.backward()
    without = {name for name, parameter in net.named_parameters() if parameter.grad is None}
    assert without == {"spare.weight", "spare.bias"}


def test_the_callers_variables_name_the_unused_ones_of_a_model_that_is_used():
    net, another = TwoHeads(), TwoHeads()
    recording = record(net(torch.randn(3, 4)).square().mean())
    finding = only(diagnose(recording), "no-grad")
    assert "net.spare.weight" in finding.message
    assert "another" not in finding.message
    assert another is not net


def test_a_variable_assigned_before_the_model_hides_nothing():
    backbone = nn.Linear(4, 4)
    model = nn.ModuleDict({"backbone": backbone, "head": nn.Linear(4, 1)})
    loss = model["head"](model["backbone"](torch.randn(6, 4)).detach()).sum()
    finding = only(diagnose(record(loss)), "no-grad")
    assert finding.numbers == {"parameters": 2}
    assert "model.backbone.weight and model.backbone.bias" in finding.message


@pytest.mark.parametrize("watched", [True, False])
def test_a_gradient_that_exists_is_never_denied(watched: bool):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    x = torch.randn(2, 4, requires_grad=True)
    with watch() if watched else contextlib.nullcontext():
        inner = torch.utils.checkpoint.checkpoint(model[0], x, use_reentrant=True)
        loss = model[1](inner).sum()
    recording = record(loss)
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert {f.kind for f in diagnose(recording, names=model)} <= {"memory"}


def test_a_part_that_fails_takes_no_other_with_it(monkeypatch):
    def fails(_: object) -> list[Finding]:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("gradwalk.checks.run_checks.loss_findings", fails)
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    findings = diagnose(record((x.log() * 0).sum(), names={"x": x}), names={"x": x})
    assert {"nan", "failed"} <= {finding.kind for finding in findings}
    (failed,) = [finding.message for finding in findings if finding.kind == "failed"]
    assert "no such luck" in failed


def test_what_an_optimizer_holds_is_compared_with_the_graph():
    net, other = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)), nn.Linear(4, 1)
    loss = net(torch.randn(3, 4)).sum() + other(torch.randn(3, 4)).sum()
    recording = record(loss)
    held = [net[0].weight, net[0].bias, net[1].weight]

    def about(optimizer: object) -> list[tuple[str, str]]:
        found = diagnose(recording, names={"net": net, "other": other}, optimizer=optimizer)
        return [(f.severity, f.message) for f in found if f.kind == "optimizer"]

    ((severity, message),) = about(torch.optim.SGD(held, 0.1))
    assert severity == "warning", "a part of net is held"
    assert "net.1.bias" in message
    ((severity, message),) = about(torch.optim.SGD(net.parameters(), 0.1))
    assert severity == "info", "another optimizer may hold all of the other"
    assert "other.weight" in message
    both = [torch.optim.SGD(each.parameters(), 0.1) for each in (net, other)]
    ((severity, message),) = about(both)
    assert severity == "info", "one of them may have its turn alone"
    assert message.startswith("2 optimizers hold parameters of this graph")
    with pytest.raises(TypeError, match="optimizer of type Linear"):
        diagnose(recording, optimizer=other)


def test_parameters_that_no_optimizer_holds_need_no_gradient():
    encoder, head = nn.Linear(4, 4), nn.Linear(4, 1)
    net = nn.Sequential(encoder, head)
    with watch():
        loss = head(encoder(torch.randn(3, 4)).detach()).sum()
    recording = record(loss)
    only_head = torch.optim.SGD(head.parameters(), 0.1)
    (cut,) = [f for f in diagnose(recording, names=net) if f.kind == "cut"]
    assert cut.severity == "warning"
    (cut,) = [f for f in diagnose(recording, names=net, optimizer=only_head) if f.kind == "cut"]
    assert cut.severity == "info"


@pytest.mark.parametrize("layers", [1, 30])
def test_one_region_without_grad_is_one_finding_however_many_parameters(layers: int):
    net = nn.ModuleDict(
        {"body": nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers))), "head": nn.Linear(4, 1)}
    )
    with watch():
        with torch.no_grad():
            h = net["body"](torch.randn(3, 4))
        loss = net["head"](h).sum()
    finding = only(diagnose(record(loss), names=net), "cut")
    assert finding.numbers == {"parameters": 2 * layers}
    assert finding.message.count("test_diagnose.py") == 2, "the line, and what switched grad off"


def test_a_number_too_small_to_square_is_not_called_zero():
    x = torch.full((3,), 1.0, requires_grad=True)
    loss = (x * 1e-30).sum()
    findings = diagnose(record(loss), names={"x": x})
    assert x.grad.all()
    assert "zero" not in [finding.kind for finding in findings]


def test_a_branch_beside_a_sound_one_does_not_vanish():
    torch.manual_seed(0)
    stem, branch, head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
    h = stem(torch.randn(5, 4))
    loss = head(h + 1e-7 * branch(h)).square().mean()
    net = nn.ModuleList([stem, branch, head])
    assert "vanishing" not in [f.kind for f in diagnose(record(loss), names=net)]
    loss = head(1e-7 * branch(stem(torch.randn(5, 4)))).square().mean()
    assert "vanishing" in [f.kind for f in diagnose(record(loss), names=net)]


def test_a_leaf_that_a_pass_left_out_is_found():
    net = nn.Linear(4, 1)
    loss = net(torch.randn(3, 4)).square().mean()
    recording = record(loss, names=net, inputs=[net.weight])
    finding = only(diagnose(recording, names=net), "no-grad")
    assert [recording.graph.nodes[node]["name"] for node in finding.nodes] == ["bias"]


def test_a_detach_inside_of_a_model_is_found_once_and_one_outside_is_not():
    torch.manual_seed(0)
    net = TwoHeads(detach=True)
    with watch():
        prediction = net(torch.randn(3, 4))
        loss = (prediction - prediction.detach().round()).square().mean()
    recording = record(loss, names=net)
    finding = only(diagnose(recording, names=net), "cut")
    (node,) = finding.nodes
    assert "detach()" in finding.message
    assert "test_diagnose.py" in finding.message
    assert "AddmmBackward0" in finding.message
    leaves = [recording.graph.nodes[t]["name"] for t in recording.graph.succ[node]]
    assert "spare.bias" in leaves


def test_the_largest_holders_of_memory_are_named_in_order():
    x = torch.ones(1_000_000, requires_grad=True)
    loss = x[:10].exp().sum() + x.exp().sum() + x[:1000].exp().sum()
    (finding,) = diagnose(record(loss, names={"x": x}), names={"x": x}, largest=2)
    assert finding.kind == "memory"
    assert finding.numbers["total"] == 4_004_040
    assert [finding.numbers[str(node)] for node in finding.nodes] == [4_000_000, 4000]
    assert "3.82 MiB" in finding.message


def test_outputs_alone_ask_for_a_backward_pass():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = (x * x.log()).sum()
    kinds = [finding.kind for finding in diagnose(loss, names={"x": x})]
    assert kinds == ["nan", "no-backward"]
    assert x.grad is None


def test_a_widget_is_judged_by_the_pass_that_it_shows():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    loss = (x * x.log()).sum()
    widget = GraphWidget(loss, names={"x": x})
    assert "no-backward" in [finding.kind for finding in diagnose(widget, names={"x": x})]
    assert x.grad is None
    loss.backward()
    assert [finding.kind for finding in diagnose(widget, names={"x": x})] == ["nan"]
    widget.close()
    with pytest.raises(ValueError, match="closed"):
        diagnose(widget)


def test_thresholds_are_parameters():
    net = deep(nn.Sigmoid, 3)
    recording = record(net(torch.randn(8, 16)).square().mean(), names=net)
    assert diagnose(recording, names=net) == []
    assert "vanishing" in [f.kind for f in diagnose(recording, names=net, vanishing=0.5)]


@pytest.mark.parametrize(
    ("given", "word"),
    [({"vanishing": 2}, "vanishing"), ({"exploding": 0.5}, "exploding"), ({"dead": 0}, "dead"),
     ({"largest": -1}, "largest"), ({"vanishing": math.nan}, "vanishing")],
)  # fmt: skip
def test_thresholds_that_make_no_sense_are_refused(given, word):
    with pytest.raises(ValueError, match=f"{word} was given"):
        diagnose(torch.ones(1, requires_grad=True), **given)


def test_what_carries_no_graph_is_refused():
    with pytest.raises(TypeError, match="diagnose"):
        diagnose("loss")
    with pytest.raises(ValueError, match="diagnose"):
        diagnose(torch.ones(1))


def test_findings_are_plain_data():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    models = finding_models(diagnose(record((x * x.log()).sum())))
    assert json.loads(json.dumps(models)) == models
    assert all(model["message"].endswith(".") for model in models)


def test_bytes_in_words():
    assert [in_bytes(n) for n in (0, 1023, 1024, 3 * 2**20)] == [
        "0 bytes",
        "1023 bytes",
        "1 KiB",
        "3 MiB",
    ]


@pytest.mark.parametrize("numbers", [1, 3])
def test_only_a_single_number_may_not_be_infinite(numbers):
    x = torch.ones(numbers, requires_grad=True)
    out = x.masked_fill(torch.tensor([True] + [False] * (numbers - 1)), -math.inf)
    kinds = {finding.kind for finding in diagnose(out, names={"x": x})}
    assert ("nan" in kinds) is (numbers == 1)


def test_a_graph_that_is_used_up_is_to_be_made_anew():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    assert "anew" not in only(diagnose(loss, names={"x": x}), "no-backward").message
    loss.backward()
    assert "Compute the output anew" in only(diagnose(loss, names={"x": x}), "no-backward").message


def test_stored_zeros_are_found_without_a_pass_if_the_graph_explains_them():
    w, zero = torch.ones(2, requires_grad=True), torch.zeros(4, 2, requires_grad=True)
    loss = F.linear(torch.ones(3, 2) * w, zero).sum()
    loss.backward()
    findings = diagnose(loss, names={"w": w, "zero": zero})
    (found,) = (each for each in findings if each.kind == "zero")
    assert found.severity == "info"
    assert found.message.startswith("The gradient of w is exactly zero (1 of 2 leaves)")
    assert "zero gets a gradient itself" in found.message


def test_stored_zeros_that_may_have_been_cleared_are_no_finding():
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    w.grad.zero_()
    assert "zero" not in {each.kind for each in diagnose(loss, names={"w": w})}


def test_little_memory_is_not_worth_a_note():
    x = torch.ones(100, requires_grad=True)
    assert "memory" not in [finding.kind for finding in diagnose(x.exp().sum())]
