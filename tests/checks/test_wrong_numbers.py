"""Right graphs with wrong numbers, and healthy programs that look like them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fresh import fresh
from torch import Tensor, nn
from torch.nn import functional as F

from gradwalk import GraphWidget, diagnose, explain_grad, record, watch
from gradwalk.checks.finding import Finding

X, Y = torch.randn(6, 4), torch.randn(6, 4)


def of_kind(found: list[Finding], kind: str) -> list[Finding]:
    return [each for each in found if each.kind == kind]


def kinds(found: list[Finding]) -> set[str]:
    return {each.kind for each in found}


class Loop(nn.Module):
    def __init__(self, blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks.children():
            x = block(x)
        return x


BLOCK = nn.Linear(4, 4)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    ("net", "names"),
    [
        (nn.Sequential(*[BLOCK] * 3), "net.0, net.1 and net.2"),
        (nn.Sequential(BLOCK, nn.Linear(4, 4), BLOCK), "net.0 and net.2"),
        (Loop(nn.ModuleList([BLOCK] * 2)), "net.blocks.0 and net.blocks.1"),
        (Loop(nn.ModuleDict({"a": BLOCK, "b": BLOCK})), "net.blocks.a and net.blocks.b"),
    ],
)
def test_one_module_in_several_places_of_a_container(net: nn.Module, names: str, watched: bool):
    with watch() if watched else contextlib.nullcontext():
        loss = net(X).square().mean()
    (found,) = of_kind(diagnose(record(loss), names={"net": net}), "shared-module")
    assert found.severity == "info"
    assert f"{names} are one module" in found.message


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(4, 4), relu := nn.ReLU(), nn.Linear(4, 4), relu),
        nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)]),
    ],
)
def test_what_shares_no_parameter_is_silent(net: nn.Module):
    assert not of_kind(diagnose(record(net(X).mean()), names=net), "shared-module")


def defined(**methods: Any) -> type[nn.Module]:
    """A module that passes its input on, with some methods."""
    return type("ByHand", (nn.Module,), {"forward": lambda self, x: x.sign() * x, **methods})


@pytest.mark.parametrize("place", ["layer", "loss"])
@pytest.mark.parametrize(
    "backward",
    [
        lambda self, grad_output: grad_output,
        lambda self, *gradients: gradients,
        lambda self: 2 * self.out,
        staticmethod(lambda ctx, g: g),
    ],
)
def test_a_backward_of_a_module_is_never_called(backward: Any, place: str):
    own = defined(backward=backward)()
    net = nn.Sequential(nn.Linear(4, 4), own if place == "layer" else nn.Tanh())
    loss = own(net(X)).mean()
    (found,) = of_kind(diagnose(record(loss), names={"net": net, "own": own}), "unused-backward")
    assert f"ByHand ({'net.1' if place == 'layer' else 'own'})" in found.message


@pytest.mark.parametrize(
    "backward",
    [
        lambda self, loss: loss.backward(),
        lambda self: self.loss.backward(),
        lambda self, loss: torch.autograd.grad(loss, list(self.parameters())),
    ],
)
def test_a_backward_that_starts_a_pass_is_silent(backward: Any):
    net = nn.Sequential(nn.Linear(4, 4), defined(backward=backward)())
    assert not of_kind(diagnose(record(net(X).mean()), names=net), "unused-backward")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.mul_(2)


class DoubledAnew(Doubled):
    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


def in_place(g: Tensor) -> None:
    g.mul_(2)


def anew(g: Tensor) -> Tensor:
    return g * 2


def residual(w: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    h = w * 1.5
    return (h + change(h.tanh())).square().sum()


def two_branches(w: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    return (w.exp() + change(w.sin())).square().sum()


def hooked(hook: Callable[[Tensor], Tensor | None]) -> Callable[[Tensor], Tensor]:
    def change(h: Tensor) -> Tensor:
        h.register_hook(hook)
        return h

    return change


SHARED = {
    "hook": (hooked(in_place), hooked(anew)),
    "function": (Doubled.apply, DoubledAnew.apply),
}


@pytest.mark.parametrize("make", [residual, two_branches])
@pytest.mark.parametrize("how", SHARED)
def test_a_gradient_changed_in_place_for_another_consumer(how: str, make: Any):
    for change, times in zip(SHARED[how], (1, 0), strict=True):
        w = torch.randn(300, requires_grad=True)
        found = of_kind(diagnose(record(make(w, change))), "changed-gradient")
        assert [each.severity for each in found] == ["warning"] * times


@pytest.mark.parametrize("size", [1, 300])
def test_a_gradient_of_one_consumer_may_change_in_place(size: int):
    w = torch.randn(size, requires_grad=True)
    h = hooked(in_place)(w.tanh())
    assert not of_kind(diagnose(record(h.square().sum())), "changed-gradient")


def test_grad_may_change_in_place_after_the_pass():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    out = net(X)
    widget = GraphWidget((out + X * net[0].bias).square().sum())
    widget.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
    assert not of_kind(widget.diagnose(), "changed-gradient")
    widget.close()


REPEATED, EACH = torch.tensor([0, 1, 1, 2, 0, 3]), torch.arange(6)


def into_zeros(h: Tensor, index: Tensor) -> Tensor:
    total = torch.zeros(6, 4)
    total[index] += h
    return total


def into_itself(h: Tensor, index: Tensor) -> Tensor:
    total = h * 2
    total[index] -= h
    return total


def two_dimensions(h: Tensor, index: Tensor) -> Tensor:
    total = torch.zeros(6, 6, 4)
    total[index, index] += h
    return total


def by_scatter(h: Tensor, index: Tensor) -> Tensor:
    total, wide = h * 2, index[:, None].expand(6, 4)
    return total.scatter(0, wide, total.gather(0, wide) + h)


def by_index_copy(h: Tensor, index: Tensor) -> Tensor:
    total = h * 2
    return total.index_copy(0, index, total.index_select(0, index) + h)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    "write", [into_zeros, into_itself, two_dimensions, by_scatter, by_index_copy]
)
def test_writes_to_repeated_indices(write: Callable[[Tensor, Tensor], Tensor], watched: bool):
    net = nn.Linear(4, 4)
    for index in (REPEATED, EACH):
        with watch() if watched else contextlib.nullcontext():
            loss = write(net(X), index).square().sum()
        found = of_kind(diagnose(record(loss), names=net), "repeated-index")
        assert [each.severity for each in found] == (["warning"] if index is REPEATED else [])
        times = "8 of 24" if write is by_scatter else "2 of 6"
        assert all(f"{times} values are overwritten" in each.message for each in found)


@pytest.mark.parametrize("how", ["index", "scatter", "index_copy"])
def test_another_write_to_repeated_indices_is_a_note(how: str):
    net = nn.Linear(4, 4)
    total = torch.zeros(6, 4)
    if how == "index":
        total[REPEATED] = net(X)
    elif how == "scatter":
        total.scatter_(-2, REPEATED[:, None].expand(6, 4), net(X))
    else:
        total.index_copy_(0, REPEATED, net(X))
    found = of_kind(diagnose(record(total.square().sum()), names=net), "repeated-index")
    assert [each.severity for each in found] == ["info"]


@pytest.mark.parametrize("make", ["index_add", "accumulate", "scatter_add", "rows", "mask"])
def test_what_adds_all_of_them_is_silent(make: str):
    h, total = nn.Linear(4, 4)(X), torch.zeros(6, 4)
    if make == "index_add":
        total = total.index_add(0, REPEATED, h)
    elif make == "accumulate":
        total = total.index_put((REPEATED,), h, accumulate=True)
    elif make == "scatter_add":
        total = total.scatter_add(0, REPEATED[:, None].expand(6, 4), h)
    elif make == "rows":  # the same index in several rows
        total = total.scatter(1, torch.arange(4).expand(6, 4), h)
    else:
        total[X[:, 0] > 0] += h[X[:, 0] > 0]
    assert not of_kind(diagnose(record(total.square().sum())), "repeated-index")


class TestScaledLosses:
    def scaled(self, unscale: bool, clip: float, step: str | None, watched: bool) -> list[Finding]:
        torch.manual_seed(0)
        net = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=1)
        with watch() if watched else contextlib.nullcontext():
            loss = scaler.scale(F.mse_loss(net(X), Y))
        widget = GraphWidget(loss)
        loss.backward(retain_graph=not watched)
        if unscale:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        if step == "scaler":
            scaler.step(optimizer)
            scaler.update()
        elif step == "optimizer":
            optimizer.step()
        found: list[Finding] = widget.diagnose(optimizer=optimizer)
        widget.close()
        return found

    @pytest.mark.parametrize("watched", [True, False])
    @pytest.mark.parametrize("step", ["scaler", None])
    def test_clipped_before_unscaling(self, step: str | None, watched: bool):
        (found,) = of_kind(self.scaled(False, 100.0, None, watched), "scaled")
        assert "unscale_(optimizer) before clip_grad_norm_()" in found.message

    def test_used_by_a_step_before_unscaling(self):
        (found,) = of_kind(self.scaled(False, 0, "optimizer", True), "scaled")
        assert "scaler.step(optimizer)" in found.message

    @pytest.mark.parametrize("watched", [True, False])
    @pytest.mark.parametrize("step", ["scaler", None])
    @pytest.mark.parametrize("clip", [0, 0.01, 100.0])
    def test_as_it_should_be(self, clip: float, step: str | None, watched: bool):
        found = self.scaled(bool(clip) or step is None, clip, step, watched)
        assert {each.severity for each in found} <= {"info"}
        assert "clipped" not in kinds(found) or clip == 0.01

    @pytest.mark.parametrize("order", ["clip, step", "step, clip", "clip"])
    def test_a_clipped_gradient_is_not_said_to_be_used(self, order: str):
        net = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), 1e-4)
        widget = GraphWidget(F.mse_loss(net(X), Y))
        widget.backward()
        for each in order.split(", "):
            if each == "clip":
                nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
            else:
                optimizer.step()
        (found,) = of_kind(widget.diagnose(optimizer=optimizer), "clipped")
        assert "After step() it has no effect" in found.message
        said = explain_grad(net.weight, widget)
        assert "added to net.weight.grad, but something has changed it since" in said
        widget.close()

    @pytest.mark.parametrize("weight", [1024.0, torch.tensor(4096.0), torch.tensor(3000.0)])
    def test_weighting_a_loss_is_not_scaling(self, weight: Tensor | float):
        net = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), 1e-4)
        with watch():
            loss = F.mse_loss(net(X), Y) * weight
        widget = GraphWidget(loss)
        widget.backward()
        optimizer.step()
        assert not of_kind(widget.diagnose(), "scaled")
        widget.close()


def cleared(change: bool) -> str:
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with watch():
        loss = F.mse_loss(net(X), Y)
    widget = GraphWidget(loss)
    loss.backward()
    if change:
        optimizer.step()
    optimizer.zero_grad()
    (found,) = of_kind(widget.diagnose(), "cleared")
    widget.close()
    return found.message


@pytest.mark.parametrize("healthy", ["steps", "adds up", "another network", ""])
def test_a_gradient_cleared_before_the_next_pass_is_lost(healthy: str):
    net, other = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], 0.1)
    widgets = []
    for used in (net, other if healthy == "another network" else net):
        if healthy != "adds up":
            optimizer.zero_grad()
        with watch():
            loss = F.mse_loss(used(X), Y)
        widgets.append(GraphWidget(loss))
        loss.backward()
        found = widgets[-1].diagnose(optimizer=optimizer)
        if healthy == "steps":
            optimizer.step()
    lost = ["has used that gradient" in each.message for each in of_kind(found, "cleared")]
    assert lost == ([] if healthy else [True])
    for widget in widgets:
        widget.close()


def test_a_gradient_cleared_without_a_step_is_lost():
    assert "no step has used this gradient" in cleared(change=False)
    assert "no step has used" not in cleared(change=True)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, h: Tensor) -> Tensor:
        return self.cell(h).tanh()  # KEPT


@pytest.mark.parametrize("watched", ["each", "all", ""])
@pytest.mark.parametrize("detached", [True, False])
def test_state_carried_over_a_step_is_named(detached: bool, watched: str):
    net = Recurrent()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    h = X
    with watch() if watched == "all" else contextlib.nullcontext():
        for _ in range(3):
            with watch() if watched == "each" else contextlib.nullcontext():
                h = net(h)
                loss = h.square().mean()
            found = of_kind(diagnose(loss, names=net), "changed")
            if not found:
                loss.backward(retain_graph=True)
                optimizer.step()
                h = h.detach() if detached else h
    assert bool(found) is not detached
    if found:
        assert "goes on into an earlier iteration" in found[0].message
        assert "optimizer" not in found[0].message.split("earlier iteration")[1]
        assert ("# KEPT" in found[0].message.split("earlier iteration")[1]) is bool(watched)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("before", [True, False])
def test_an_embedding_with_a_largest_norm_changes_its_weight(kind: Any, before: bool):
    table, v = kind(5, 4, max_norm=0.1), torch.randn(4, requires_grad=True)
    with watch():
        scores = table.weight @ v if before else None
        rows = table(torch.tensor([[1, 2]]))  # RENORMED
        loss = rows.sum() + (table.weight @ v if scores is None else scores).sum()
    found = of_kind(diagnose(loss, names={"table": table}), "changed")
    assert len(found) == before
    for each in found:
        assert "by embedding" in each.message
        assert "# RENORMED" in each.message
        assert "table at" not in each.message.split(" saved ")[0]


def test_a_step_between_two_backward_passes_is_not_state():
    net, other = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with watch():
        first, second = net(X), net(other(X))
    first.mean().backward(retain_graph=True)
    optimizer.step()
    (found,) = of_kind(diagnose(second.square().mean()), "changed")
    assert "earlier iteration" not in found.message


def masked_rows(h: Tensor) -> Tensor:
    mask = torch.zeros(6, 6, dtype=torch.bool)
    mask[2] = True
    weights = (h @ h.T).masked_fill(mask, -torch.inf).softmax(1)
    return (weights @ h)[[0, 1, 3]]


def other_branch(h: Tensor) -> Tensor:
    return torch.where(h > 0, (h - 0.1).sqrt(), h)[h > 0.2]


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize(
    ("make", "op"), [(masked_rows, "SoftmaxBackward0"), (other_branch, "SqrtBackward0")]
)
def test_the_first_nan_of_the_forward_pass(make: Any, op: str, watched: bool):
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    with watch() if watched else contextlib.nullcontext():
        loss = make(net(X)).square().mean()
    assert loss.isfinite()
    (found,) = of_kind(diagnose(record(loss), names=net), "nan")
    assert "The output is finite" in found.message
    first = found.message.split("first operation known to make it is ")[1]
    assert op in first.split("whose result")[0]


def test_a_masked_softmax_without_nan_is_silent():
    net = nn.Linear(4, 4)
    h = net(X)
    mask = torch.eye(6, dtype=torch.bool)
    loss = ((h @ h.T).masked_fill(mask, -torch.inf).softmax(1) @ h).square().mean()
    assert not of_kind(diagnose(record(loss), names=net), "nan")


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad


def raising(h: Tensor) -> Tensor:
    def refuse(_: Tensor) -> None:
        raise ValueError("no such luck")

    h.register_hook(refuse)
    return h


FAILING: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "too few gradients": (lambda h: Wrong.apply(h, h.exp()), "Return one gradient"),
    "a hook": (raising, "no such luck. Correct what raised it"),
}


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", FAILING)
def test_a_backward_that_raised(name: str, own: bool):
    change, remedy = FAILING[name]
    net = nn.Linear(4, 4)
    loss = change(net(X).tanh()).mean()
    widget = GraphWidget(loss)
    with pytest.raises((RuntimeError, ValueError)):
        (widget if own else loss).backward()
    (found,) = of_kind(widget.diagnose(), "backward-failed")
    assert found.severity == "error"
    said = str(explain_grad(net.weight, widget))
    assert "stopped with an error" in said
    if own:
        assert remedy in found.message
        assert remedy.split(". ")[-1] in said
    else:
        assert "zero_grad()" in found.message
    widget.close()
    again = record(nn.Linear(4, 4)(X).mean())
    assert not of_kind(diagnose(again), "backward-failed")


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("own", ["state", "shared part", "all"])
def test_a_backward_that_met_what_another_one_freed(own: str, watched: bool):
    net, head = Recurrent(), nn.Linear(4, 1)
    with watch() if watched else contextlib.nullcontext():
        h = net(X)
        first = head(h).mean()
        loss = {"state": net(h).square().mean(), "shared part": h.exp().sum(), "all": first}[own]
    first.backward()
    widget = GraphWidget(loss)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()
    net.zero_grad()
    (found,) = of_kind(widget.diagnose(), "backward-failed")
    remedy = "retain_graph=True" if own == "all" else "keep .detach() of it"
    for said in (found.message, str(explain_grad(net.cell.weight, widget))):
        assert "An earlier backward pass freed its saved tensors" in said
        assert remedy.lower() in said.lower()
    widget.close()


class TestPackedSequences:
    def last(
        self, lengths: list[int], take: str, first: bool, watched: bool = True
    ) -> list[Finding]:
        body, head = nn.LSTM(4, 5, batch_first=first), nn.Linear(5, 1)
        x = torch.randn(3, 5, 4) if first else torch.randn(5, 3, 4)
        x.requires_grad_(not watched)
        with watch() if watched else contextlib.nullcontext():
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), first)
            packed, (hidden, _) = body(packed)
            out, _ = nn.utils.rnn.pad_packed_sequence(packed, first)
            out = out if first else out.transpose(0, 1) if take == "each" else out
            if take == "last":
                loss = head(out[:, -1] if first else out[-1]).square().mean()
            elif take == "hidden":
                loss = head(hidden[-1]).square().mean()
            elif take == "each":
                loss = torch.stack([head(out[:, t]).mean() for t in range(-5, 0)]).mean()
            else:
                loss = head(out[-1] if first else out[:, -1]).square().mean()
        return of_kind(diagnose(record(loss), names={"body": body, "head": head}), "padding")

    @pytest.mark.parametrize("watched", [True, False])
    @pytest.mark.parametrize("first", [True, False])
    def test_the_last_step_is_padding_in_the_shorter(self, first: bool, watched: bool):
        (found,) = self.last([5, 3, 2], "last", first, watched)
        assert found.severity == "warning"
        assert ("out[:, -1]" if watched else "body [SelectBackward0") in found.message

    @pytest.mark.parametrize("watched", [True, False])
    @pytest.mark.parametrize("first", [True, False])
    @pytest.mark.parametrize(
        ("lengths", "take"),
        [([5, 5, 5], "last"), ([5, 3, 2], "hidden"), ([5, 3, 2], "each"), ([5, 3, 2], "example")],
    )
    def test_what_takes_no_padding_is_silent(
        self, lengths: list[int], take: str, first: bool, watched: bool
    ):
        assert not self.last(lengths, take, first, watched)


def test_gathered_values_are_constants():
    first, second = fresh(
        """
        import torch.distributed as dist
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        net = torch.nn.Linear(4, 3)
        with watch():
            z = net(torch.randn(6, 4))
            gathered = [torch.zeros_like(z)]
            dist.all_gather(gathered, z)
            loss = F.cross_entropy(z @ torch.cat(gathered).T, torch.arange(6))
        found = diagnose(record(loss, retain_graph=True))
        assert {each.severity for each in found} <= {"info"}
        print([each.kind for each in found])
        gathered[0] = z
        with watch():
            loss = F.cross_entropy(z @ torch.cat(gathered).T, torch.arange(6))
        print([each.kind for each in diagnose(record(loss))])
        dist.destroy_process_group()
        """
    ).splitlines()
    assert "cut" in first or not hasattr(torch.distributed, "all_gather_single")
    assert "cut" not in second
