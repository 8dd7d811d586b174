"""What looks like a mistake and is none raises no alarm, and the right line is blamed."""

from __future__ import annotations

import ast
import contextlib
import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gradwalk
from gradwalk import GraphWidget, diagnose, explain_grad, record, save, watch
from gradwalk.__main__ import main
from gradwalk.checks.finding import Finding
from gradwalk.schema.findings import FindingKind

ROOT = Path(gradwalk.__file__).parent


def alarms(found: list[Finding]) -> list[Finding]:
    return [each for each in found if each.severity != "info"]


def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    return net, torch.optim.SGD(net.parameters(), 0.1), torch.randn(16, 4)


class TestAfterAStep:
    @pytest.mark.parametrize("retain", [True, False])
    @pytest.mark.parametrize("how", ["the widget's", "watched by it", "recorded", "not seen"])
    def test_a_completed_pass_is_no_error(self, how: str, retain: bool):
        net, optimizer, x = model_and_optimizer()
        loss = net(x).square().mean()
        shown = loss if how == "not seen" else GraphWidget(loss)
        if how == "recorded":
            shown = record(loss, retain_graph=retain)
        elif how == "the widget's":
            shown.backward()
        else:
            loss.backward(retain_graph=retain)
        optimizer.step()
        assert not alarms(diagnose(shown, names=net))

    @pytest.mark.parametrize("own", [True, False])
    def test_the_loss_of_an_open_widget_has_its_pass(self, own: bool):
        net, _, x = model_and_optimizer()
        loss = net(x).square().mean()
        assert "no-backward" in {each.kind for each in diagnose(loss)}
        widget = GraphWidget(loss)
        (widget if own else loss).backward()
        assert "no-backward" not in {each.kind for each in diagnose(loss)}
        assert diagnose(loss) == widget.diagnose()
        for move in (widget.reset, widget.step) if own else ():
            move()
            assert "cleared" not in {each.kind for each in diagnose(loss)}
        widget.close()

    def test_a_step_in_backward_is_no_error(self):
        net, _, x = model_and_optimizer()
        optimizers = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}

        def step(parameter: Tensor) -> None:
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        loss = net(x).square().mean()
        widget = GraphWidget(loss)
        loss.backward()
        assert not alarms(widget.diagnose())
        recording = record(net(x).square().mean())
        assert not alarms(diagnose(recording))

    def test_a_pass_that_failed_is_one(self):
        net, optimizer, x = model_and_optimizer()
        loss = net(x).square().mean()
        widget = GraphWidget(loss)
        loss.backward(retain_graph=True)
        optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()
        assert [each.kind for each in alarms(widget.diagnose())] == ["changed"]

    @pytest.mark.parametrize("zeros", [True, False])
    def test_before_backward_it_is_one(self, zeros: bool):
        net, optimizer, x = model_and_optimizer()
        net(x).square().mean().backward()
        loss = net(x).square().mean()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not zeros)
        assert [each.kind for each in alarms(diagnose(loss))] == ["changed"]


def nearest(z: Tensor, codes: nn.Embedding) -> Tensor:
    found: Tensor = codes(torch.cdist(z, codes.weight).argmin(1))
    return found


X, Y = torch.randn(16, 4), torch.randn(16, 3)


class Quantiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc, self.codes = nn.Linear(4, 3), nn.Embedding(5, 3)

    def straight(self, harmless: bool) -> Tensor:
        z = self.enc(X)
        q = nearest(z, self.codes)
        zq = z + (q - z).detach()  # BLAMED
        return F.mse_loss(zq, Y) + F.mse_loss(z, zq.detach() if harmless else Y)

    def either(self) -> Tensor:
        z = self.enc(X)
        q = nearest(z, self.codes)
        zq = z + (q - z).detach()
        return F.mse_loss(zq, Y) + F.mse_loss(z, q.detach())

    def both(self, held: bool) -> Tensor:
        h = self.enc(X) * nearest(self.enc(X), self.codes).detach()
        self.h = h if held else None
        return (h.detach() * self.enc.weight.sum() * self.enc.bias.sum()).sum()

    def under_no_grad(self) -> Tensor:
        with torch.no_grad():
            scale = self.codes.weight.exp().detach().sum()
        return (self.enc(X) * scale).sum()


def cut_of(net: nn.Module, loss: Callable[[], Tensor]) -> str:
    with watch():
        made = loss()
    (found,) = (f for f in alarms(diagnose(record(made), names=net)) if f.kind == "cut")
    return found.message


class TestWhichCutIsBlamed:
    @pytest.mark.parametrize("harmless", [True, False])
    def test_the_one_that_alone_reconnects(self, harmless: bool):
        torch.manual_seed(0)
        net = Quantiser()
        message = cut_of(net, lambda: net.straight(harmless))
        assert "codes.weight" in message
        assert "(q - z).detach()" in message
        assert "zq.detach()" not in message

    def test_explain_grad_blames_it_too(self):
        net = Quantiser()
        with watch():
            loss = net.straight(harmless=True)
        said = str(explain_grad(net.codes.weight, loss))
        assert "(q - z).detach()" in said

    def test_of_several_all_are_named_and_none_is_to_go(self):
        net = Quantiser()
        message = cut_of(net, net.either)
        assert "(q - z).detach()" in message
        assert "q.detach())`" in message
        assert "leave out" not in message.lower()

    def test_a_set_that_must_go_is_named_as_one(self):
        net = Quantiser()
        message = cut_of(net, lambda: net.both(held=True))
        assert "h.detach()" in message
        assert "self.codes).detach()" in message
        assert "all of them" in message.lower()

    def test_where_the_graph_between_is_gone_nothing_is_advised(self):
        net = Quantiser()
        message = cut_of(net, lambda: net.both(held=False))
        assert "h.detach()" in message
        assert "leave out" not in message.lower()

    def test_a_detach_under_no_grad_is_one_of_two(self):
        net = Quantiser()
        message = cut_of(net, net.under_no_grad)
        assert "detach()" in message
        assert "no_grad" in message
        assert "all of them" in message.lower()


def residual_quantiser() -> tuple[nn.Module, Tensor]:
    net = nn.ModuleDict({"enc": nn.Linear(4, 3), "codes": nn.ModuleList()})
    net["codes"].extend(nn.Embedding(5, 3) for _ in range(3))
    rest = net["enc"](X)
    total, loss = torch.zeros(()), torch.zeros(())
    for codes in net["codes"]:
        q = nearest(rest, codes)
        loss = loss + F.mse_loss(rest, q.detach()) + F.mse_loss(q, rest.detach())
        q = rest + (q - rest).detach()
        total, rest = total + q, rest - q.detach()
    return net, loss + F.mse_loss(total, Y)


def bootstrapped() -> tuple[nn.Module, Tensor]:
    net, predictor = nn.Linear(4, 3), nn.Linear(3, 3)
    target = copy.deepcopy(net).requires_grad_(False)
    with torch.no_grad():
        wanted = target(X + 0.1)
    loss = 2 - 2 * F.cosine_similarity(predictor(net(X)), wanted.detach()).mean()
    return nn.ModuleList([net, predictor]), loss


def straight_through() -> tuple[nn.Module, Tensor]:
    net = nn.Linear(4, 3)
    soft = net(X).sigmoid()
    return net, F.mse_loss((soft > 0.5).float() + soft - soft.detach(), Y)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("make", [residual_quantiser, bootstrapped, straight_through])
def test_a_gradient_that_is_stopped_on_purpose_is_no_alarm(make, watched: bool):
    with watch() if watched else contextlib.nullcontext():
        net, loss = make()
    assert not alarms(diagnose(record(loss), names=net))


def dropped(h: Tensor) -> Tensor:
    return F.dropout(h, 0.999999)


def by_bernoulli(h: Tensor) -> Tensor:
    return h * torch.empty(h.shape[0], 1).bernoulli_(1e-6).div_(1e-6)


def by_rand(h: Tensor) -> Tensor:
    return h * (torch.rand(h.shape[0], 1) >= 1).float()


def by_probabilities(h: Tensor) -> Tensor:
    return h * torch.bernoulli(torch.zeros_like(h))


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("drop", [dropped, by_bernoulli, by_rand, by_probabilities])
def test_a_block_that_is_dropped_at_random_is_a_note(drop, watched: bool):
    net = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
    with watch() if watched else contextlib.nullcontext():
        h = net[0](X)
        loss = (h + drop(net[1](h))).square().mean()
    found = diagnose(record(loss), names=net)
    assert [each.severity for each in found if each.kind == "zero"] == ["info"]
    assert not alarms(found)


def test_another_mask_of_zeros_is_a_warning():
    net, mask = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)]), torch.zeros(16, 4)
    with watch():
        h = net[0](X)
        loss = (h + net[1](h) * mask).square().mean()
    assert [each.kind for each in alarms(diagnose(record(loss), names=net))] == ["zero"]


def test_zeros_at_every_leaf_are_a_warning():
    grid = torch.full((1, 2, 2, 2), 100.0, requires_grad=True)
    shift = torch.ones(2, requires_grad=True)
    loss = F.grid_sample(torch.randn(1, 1, 3, 3), grid + shift, align_corners=False).sum()
    assert [each.kind for each in alarms(diagnose(record(loss)))] == ["zero"]


@pytest.mark.parametrize("watched", [True, False])
def test_a_module_is_called_by_its_name(watched: bool):
    net = nn.ModuleDict({"weight": nn.Linear(4, 4), "gate": nn.Linear(4, 4)})
    lone = nn.Linear(4, 4)
    nn.init.zeros_(net["gate"].weight)
    nn.init.zeros_(net["gate"].bias)
    with watch() if watched else contextlib.nullcontext():
        loss = (net["gate"](X) * net["weight"](X)).square().sum() + lone(X).clamp(9, 9).sum()
    text = " ".join(each.message for each in diagnose(record(loss)))
    assert "lone.lone" not in text
    assert "net.net" not in text
    assert "Net." not in text


class Wrapped(torch.Tensor):
    """A tensor whose memory is in another one."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[override]
        inner = [each.inner if isinstance(each, cls) else each for each in args]
        found = func(*inner, **(kwargs or {}))
        return cls(found) if isinstance(found, Tensor) else found


def test_a_view_of_a_wrapper_whose_base_nobody_holds_is_measured(tmp_path):
    x = Wrapped(torch.ones(4)).requires_grad_()
    widget = GraphWidget((x * Wrapped(torch.ones(4)).view(4)).sum())
    save(widget, tmp_path / "a.gw")
    assert "failed" not in [each.kind for each in widget.diagnose()]
    widget.close()


def test_the_documentation_has_the_kinds_of_the_code():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "findings.md").read_text(
        encoding="utf-8"
    )
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    documented = [kind for row in rows for kind in re.findall(r"`([^`]+)`", row)]
    assert sorted(documented) == sorted(get_args(FindingKind))
    made = {
        node.value
        for path in ROOT.rglob("*.py")
        if path.parent.name != "schema"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(documented) <= made


def weight_of_zero(term: Tensor) -> Tensor:
    return 0.0 * term


def whole_number_zero(term: Tensor) -> Tensor:
    return term * 0


def weight_in_a_tensor(term: Tensor) -> Tensor:
    return torch.tensor([1.0, 0.0])[1] * term


def weight_of_a_schedule(term: Tensor) -> Tensor:
    return term * min(1.0, max(0.0, (3 - 10) / 5))


def weight_learned_elsewhere(term: Tensor) -> Tensor:
    return term * torch.zeros(())


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    "weight",
    [
        weight_of_zero,
        whole_number_zero,
        weight_in_a_tensor,
        weight_of_a_schedule,
        weight_learned_elsewhere,
    ],
)
@pytest.mark.parametrize("is_sum_of_parameters", [True, False])
def test_a_term_with_the_weight_0_is_a_note(weight, watched, recorded, is_sum_of_parameters):
    trunk, one, other = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
    with watch() if watched else contextlib.nullcontext():
        h = trunk(X)
        term = sum(p.sum() for p in other.parameters())
        loss = one(h).square().mean()
        loss = loss + weight(term if is_sum_of_parameters else other(h).square().mean())
        if not recorded:
            loss.backward()
    found = diagnose(record(loss) if recorded else loss, names={"other": other})
    assert not alarms(found)
    said = [each.message for each in found if each.kind == "zero"]
    assert len(said) == (recorded or watched)
    assert all("multiplies by 0" in each and "mask" not in each for each in said)


@pytest.mark.parametrize("factor", [torch.zeros(()), 0.0, torch.zeros(16, 1), torch.zeros(16, 4)])
@pytest.mark.parametrize("watched", [True, False])
def test_a_factor_of_zeros_before_all_leaves_is_a_warning(factor, watched):
    net = nn.Linear(4, 4)
    with watch() if watched else contextlib.nullcontext():
        loss = (net(X).log_softmax(-1) * factor).mean()
    (zero,) = (each for each in diagnose(record(loss), names=net) if each.kind == "zero")
    assert zero.severity == "warning"
    assert "dropout" not in zero.message


def masked_before(h: Tensor) -> Tensor:
    return torch.where(h > 0, h, torch.zeros(())).sqrt()


def filled_after_a_log(h: Tensor) -> Tensor:
    p = h.relu() + 1
    return torch.where(p > 1, p - 1, torch.zeros(())).log().masked_fill(p <= 1, 0)


def diagonal_of_distances(h: Tensor) -> Tensor:
    off = ~torch.eye(16, dtype=torch.bool)
    squares = (h[:, None] - h[None]).square().sum(-1)
    return torch.where(off, squares, torch.zeros(())).sqrt()


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("masked", [masked_before, filled_after_a_log, diagonal_of_distances])
def test_what_a_mask_swallows_is_a_note(masked, watched, tmp_path):
    net = nn.Linear(4, 4)
    with watch() if watched else contextlib.nullcontext():
        loss = masked(net(X)).mean()
    recording = record(loss)
    assert all(p.grad.isfinite().all() for p in net.parameters())
    (born,) = (each for each in diagnose(recording, names=net) if each.kind == "nan")
    assert born.severity == "info"
    assert "No leaf received it" in born.message
    widget = GraphWidget(recording)
    widget.diagnose()
    save(widget, tmp_path / "run.gw")
    assert main([str(tmp_path / "run.gw")]) == 0


def test_the_same_without_the_mask_is_an_error():
    net = nn.Linear(4, 4)
    loss = (net(X) * 0).sqrt().mean()
    (born,) = (each for each in diagnose(record(loss), names=net) if each.kind == "nan")
    assert born.severity == "error"


def a_loop_variable(net: nn.Sequential) -> dict[str, object]:
    return {"net": net, "layer": net[0]}


def the_argument_of_a_function(net: nn.Sequential) -> dict[str, object]:
    return {"net": net, "model": net}


def a_list_of_layers(net: nn.Sequential) -> dict[str, object]:
    return {"layers": [net[0]], "first": net[0], "net": net}


def an_own_object(net: nn.Sequential) -> dict[str, object]:
    return {"trainer": type("Trainer", (), {})(), "model": net, "m": net}


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    "variables", [a_loop_variable, the_argument_of_a_function, a_list_of_layers, an_own_object]
)
def test_a_parameter_with_several_names_counts_once(variables, watched):
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    net[0].requires_grad_(False)
    with watch() if watched else contextlib.nullcontext():
        loss = net(X).square().mean()
    scope = {**variables(net), "loss": loss, "diagnose": diagnose, "record": record}
    exec("found = diagnose(record(loss))", scope)
    (frozen,) = (each for each in scope["found"] if each.kind == "frozen")
    assert frozen.numbers == {"parameters": 2}
    assert re.search(r"^\S+0?\.?weight and \S+0?\.?bias are frozen", frozen.message)


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(4), nn.BatchNorm1d(4, track_running_stats=False), nn.LayerNorm(4)]
)
def test_a_frozen_norm_is_said_to_move_only_if_its_statistics_do(norm, moves):
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), norm), nn.Linear(4, 1))
    net[0].requires_grad_(False).train(moves)
    before = copy.deepcopy(list(norm.buffers()))
    loss = net(X).square().mean()
    (frozen,) = (each for each in diagnose(record(loss)) if each.kind == "frozen")
    after = list(norm.buffers())
    has_moved = any(not torch.equal(*each) for each in zip(before, after, strict=True))
    assert ("net.0.1 is in training mode, so running" in frozen.message) == has_moved


def test_the_words_of_a_cut_are_of_the_constant_and_its_line():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    other = nn.Linear(4, 1)
    with watch():
        with torch.no_grad():
            reference = net(X)
        loss = (net(X) - reference + other(X).detach()).square().sum()
    found = [each for each in diagnose(record(loss), names={"r": reference}) if each.kind == "cut"]
    (cut,) = (each.message for each in found if "no_grad at " in each.message)
    assert "inside of" not in cut
    assert "the values of r of shape (16, 1) go into SubBackward0" in cut


@pytest.mark.parametrize("first", ["q.detach()", "q.data", "torch.tensor(q.tolist())"])
def test_a_cut_behind_another_one_is_not_blamed(first):
    encoder, code = nn.Linear(4, 2), nn.Embedding(16, 2)
    scope = {"torch": torch, "F": F, "X": X, "encoder": encoder, "code": code}
    with watch():
        exec(f"q = code(torch.arange(16))\nz = encoder(X)\nzq = z + {first}", scope)
        commit = F.mse_loss(scope["z"], scope["zq"].detach())
        loss = F.mse_loss(scope["zq"], torch.ones(16, 2)) + commit
    found = diagnose(record(loss), names={"encoder": encoder, "code.weight": code.weight})
    blamed = [each.message for each in found if "code.weight" in each.message]
    assert blamed
    assert not any("commit" in each for each in blamed)
