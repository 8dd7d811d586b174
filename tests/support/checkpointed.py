"""Programs with checkpointed regions, and the truth: what ran in each, and what it would keep."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Run = Callable[..., Any]


@dataclass
class Truth:
    """What really ran in the checkpointed functions of a program.

    Attributes:
        ranges: Of each call, in the order in which they began, the numbers of the nodes it made.
        calls: How often the functions were called, again in backward included.
        kept: Of each call without a checkpoint, the bytes that it made and that are kept for it.
    """

    ranges: list[tuple[int, int]] = field(default_factory=list)
    calls: int = 0
    kept: list[int] = field(default_factory=list)

    def around(self, function: Run, how: str) -> Run:
        """The same function, checkpointed ("non-reentrant", "reentrant") or plain, and noted."""
        if how == "plain":
            return self._weighed(function)
        seen = self._seen(function)
        return functools.partial(checkpoint, seen, use_reentrant=how == "reentrant")

    def _seen(self, function: Run) -> Run:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if torch._C._current_graph_task_id() != -1:  # again, in backward
                return function(*args, **kwargs)
            start = torch.autograd._get_sequence_nr()
            self.ranges.append((start, start))
            place = len(self.ranges) - 1
            result = function(*args, **kwargs)
            self.ranges[place] = start, torch.autograd._get_sequence_nr()
            return result

        if isinstance(function, nn.Module):
            return _Module(function, run)
        return run

    def _weighed(self, function: Run) -> Run:
        def run(*args: Any, **kwargs: Any) -> Any:
            place = len(self.kept)
            self.kept.append(0)
            saved: list[Tensor] = []
            with _saving(saved):
                result = function(*args, **kwargs)
            there = [*tensors(args), *tensors(kwargs), *tensors(result)]
            there += [t for t in saved if is_leaf(t)]
            alive = {t.untyped_storage()._cdata for t in there}
            made = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in saved}
            self.kept[place] = sum(size for key, size in made.items() if key not in alive)
            return result

        return run


def is_leaf(tensor: Tensor) -> bool:
    """Whether it is a leaf that requires grad, or the view of one."""
    base = tensor if tensor._base is None else tensor._base
    return base.is_leaf and base.requires_grad


class _Module(nn.Module):
    """A module whose calls are noted, as if it was called itself."""

    def __init__(self, inner: nn.Module, run: Run) -> None:
        super().__init__()
        self.inner = [inner]
        self.run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


_collecting: list[list[Tensor]] = []


@contextlib.contextmanager
def _saving(into: list[Tensor]) -> Iterator[None]:
    """Collect what is saved within; that of an inner one counts for those around it as well."""

    def pack(tensor: Tensor) -> Tensor:
        for each in _collecting:
            each.append(tensor)
        return tensor

    _collecting.append(into)
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
    finally:
        _collecting.pop()


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for each in value for t in tensors(each)] if isinstance(value, (list, tuple)) else []


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


Region = Callable[[Run], Run]
"""Makes a checkpointed function of a function."""


def pointwise(region: Region) -> Tensor:
    x = torch.rand(3, 4, requires_grad=True)
    y = region(lambda a: ((a + 1).sin() * a).tanh() + 2)(x * 2)
    return (y * y).sum()


def blocks(region: Region) -> Tensor:
    x = torch.randn(2, 5, 8)
    x = nn.Linear(8, 8)(x)
    for _ in range(3):
        x = region(Block(8))(x)
    return nn.Linear(8, 1)(x).mean()


def attention(region: Region) -> Tensor:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    return region(layer)(torch.randn(2, 5, 8, requires_grad=True)).square().mean()


def images(region: Region) -> Tensor:
    body = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()
    )
    x = nn.Conv2d(3, 3, 1)(torch.randn(2, 3, 8, 8))
    return nn.Linear(36, 2)(region(body)(x)).logsumexp(1).sum()


def shared_cell(region: Region) -> Tensor:
    cell = nn.RNNCell(4, 4)
    h = torch.zeros(2, 4, requires_grad=True)
    for _ in range(4):
        h = region(cell)(torch.ones(2, 4), h)
    return h.sum()


def nested(region: Region) -> Tensor:
    w = torch.rand(4, requires_grad=True)

    def inner(a: Tensor) -> Tensor:
        return torch.tanh(a * w) + a

    def outer(a: Tensor) -> Tensor:
        return region(inner)(region(inner)((a * w).exp())).sigmoid() + a

    return (region(outer)(torch.rand(4, requires_grad=True)) * w).sum()


def only_nested(region: Region) -> Tensor:
    """Three regions of the same operations, and nothing else in the graph."""

    def innermost(a: Tensor) -> Tensor:
        return (a.sin() * 2).exp()

    def middle(a: Tensor) -> Tensor:
        return region(innermost)(a)

    def outer(a: Tensor) -> Tensor:
        return region(middle)(a)

    return region(outer)(torch.rand(3, requires_grad=True))


def two_outputs(region: Region) -> Tensor:
    def split(a: Tensor, *, factor: float) -> tuple[Tensor, Tensor]:
        b = (a * a).exp()
        return b * factor, b.sin().chunk(2)[0]

    x = torch.rand(4, requires_grad=True) * 1
    first, second = region(lambda a: split(a, factor=2.0))(x)
    return first.sum() + second.prod()


def with_custom_function(region: Region) -> Tensor:
    x = torch.rand(3, requires_grad=True) + 1
    return region(lambda a: Cube.apply(a.sin()).cos())(x).sum()


def branches(region: Region) -> Tensor:
    """Side by side, with operations of the rest of the program before, between and after."""
    x = torch.rand(3, requires_grad=True)
    before = x + 1
    a = region(lambda t: t.exp() * t)(before)
    between = (before * 3).sin()
    b = region(lambda t: (t - 1).cos())(between)
    return ((a * b + 1) * between).sum()


def with_dropout(region: Region) -> Tensor:
    body = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 6))
    return region(body)(torch.rand(4, 6, requires_grad=True) * 1).sum()


MODELS: dict[str, Callable[[Region], Tensor]] = {
    each.__name__: each
    for each in (
        pointwise,
        blocks,
        attention,
        images,
        shared_cell,
        nested,
        only_nested,
        two_outputs,
        with_custom_function,
        branches,
        with_dropout,
    )
}


def program(name: str, how: str) -> tuple[Tensor, Truth]:
    """The output of a model, and the truth about its regions; ``how`` as for `Truth.around`."""
    torch.manual_seed(0)
    truth = Truth()
    return MODELS[name](lambda function: truth.around(function, how)), truth
