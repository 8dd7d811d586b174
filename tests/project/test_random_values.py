"""No value is untrue, whatever was written in place: random programs, against copies."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gradwalk import GraphWidget, watch

pytestmark = pytest.mark.one_python

Made = Tensor | list[Tensor] | None


def into_view(a: Tensor, b: Tensor) -> Made:
    view = a.view(-1) if a.is_contiguous() else a
    view.mul_(3)
    return view


def into_first(a: Tensor, b: Tensor) -> Made:
    if a.dim():
        a[0] = b.sum() * 0.1
    return None


@torch.no_grad()
def unseen_by_autograd(a: Tensor, b: Tensor) -> Made:
    a.add_(1)
    return None


def by_data(a: Tensor, b: Tensor) -> Made:
    """Counted nowhere."""
    a.data.mul_(2)
    return None


def inplace(change: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor, Tensor], Made]:
    def changed(a: Tensor, b: Tensor) -> Made:
        change(a, b)
        return None

    return changed


NEW: list[Callable[[Tensor, Tensor], Made]] = [
    lambda a, b: a * 2,
    lambda a, b: a + b if a.shape == b.shape else a + 1,
    lambda a, b: a * b if a.shape == b.shape else a * a,
    lambda a, b: a.relu(),
    lambda a, b: (a * 0.1).exp(),
    lambda a, b: a.reshape(-1),
    lambda a, b: a[..., :1] if a.dim() else a * 1,
    lambda a, b: a.t() if a.dim() == 2 else a * 1,
    lambda a, b: list(a.unbind(0)) if a.dim() and 0 < a.shape[0] < 4 else a * 1,
    lambda a, b: list(a.chunk(2)) if a.dim() and 2 <= a.shape[0] < 5 else a * 1,
    lambda a, b: a.clone(),
    lambda a, b: a**2 * 0.1,
    lambda a, b: a.sum(),
    lambda a, b: a * a.detach(),
    lambda a, b: torch.where(a > 0, a, a * 0.1),
    lambda a, b: torch.cat([a, b]) if a.dim() and a.shape == b.shape else a * 1,
    lambda a, b: a @ a.t() if a.dim() == 2 else a * 1,
    lambda a, b: a.softmax(-1) if a.dim() else a * 1,
]
WRITES: list[Callable[[Tensor, Tensor], Made]] = [
    into_view,
    into_first,
    unseen_by_autograd,
    *map(
        inplace,
        [
            lambda a, b: a.mul_(0.5),
            lambda a, b: a.add_(1),
            lambda a, b: a.sub_(b.mean() * 0.1),
            lambda a, b: a.fill_(2.0),
            lambda a, b: a.zero_(),
            lambda a, b: a.relu_(),
            lambda a, b: a.copy_(b if a.shape == b.shape else a * 2),
        ],
    ),
]
# Only copies made by `watch` tell then: these save a copy, of what may have been changed before.
COPYING = [inplace(lambda a, b: a.pow_(2)), inplace(lambda a, b: a.clamp_(-3, 3)), by_data]


class Program:
    """A random program, with a copy of what each autograd node gave, made at once."""

    def __init__(self, seed: int, watched: bool) -> None:
        self.random = random.Random(seed)
        self.gave: dict[tuple[int, str], Tensor] = {}
        self.operations = NEW * 2 + WRITES * 2 + COPYING * watched
        leaves = ([0.5, -1.0, 2.0], [[1.0, 2.0], [3.0, -4.0]], 1.5)
        self.tensors = [torch.tensor(each, requires_grad=True) * 1 for each in leaves]
        self.note()

    def note(self) -> None:
        for tensor in self.tensors:
            try:
                node = tensor.grad_fn
            except RuntimeError:
                continue
            if node is not None and tensor.output_nr == 0:
                self.gave.setdefault((node._sequence_nr(), node.name()), tensor.detach().clone())

    def step(self) -> None:
        a, b = self.random.choice(self.tensors), self.random.choice(self.tensors)
        with contextlib.suppress(RuntimeError):  # torch refuses: views of several, ...
            made = self.random.choice(self.operations)(a, b)
            new = [] if made is None else made if isinstance(made, list) else [made]
            self.tensors += [each for each in new if each.numel() <= 16]
            self.note()

    def run(self) -> Tensor:
        for _ in range(self.random.randint(2, 9)):
            self.step()
        sums = []
        for each in self.tensors:
            with contextlib.suppress(RuntimeError):  # one of several views, whose base was written
                sums += [each.sum()] if each.requires_grad else []
        loss = torch.stack(sums[-self.random.randint(1, 3) :]).sum()
        for _ in range(self.random.randint(0, 2)):
            self.step()
        return loss


def untrue(seed: int) -> list[Any]:
    """The values that are shown and are not what the node gave."""
    watched = bool(seed % 2)
    with watch() if watched else contextlib.nullcontext():
        program = Program(seed, watched)
        loss = program.run()
    if program.random.random() < 0.4:
        program.tensors.clear()
    widget = GraphWidget(loss)
    with contextlib.suppress(RuntimeError):  # what was saved was changed
        program.random.choice([lambda: None, loss.backward, widget.backward])()
    found = []
    nodes = widget.model["nodes"]
    for node, autograd in enumerate(widget._shown().source.captured.nodes):
        if nodes[node]["kind"] != "op" or nodes[node]["value"] is None:
            continue
        gave = program.gave.get((autograd._sequence_nr(), autograd.name()))
        shown = torch.tensor(nodes[node]["value"]) if gave is not None else None
        if gave is not None and not (shown.shape == gave.shape and torch.equal(shown, gave)):
            found.append((node, nodes[node]["op"], nodes[node]["value"], gave.tolist()))
    widget.close()
    return found


@pytest.mark.parametrize(
    "seeds",
    [range(150), pytest.param(range(150, 1000), marks=pytest.mark.full)],
    ids=["few", "many"],
)
def test_no_value_is_untrue(seeds: range) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong = {seed: found for seed in seeds if (found := untrue(seed))}
    assert not wrong
