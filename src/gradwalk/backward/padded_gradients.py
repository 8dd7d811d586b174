"""Gradients that are another one with zeros around it, as what picks a part of a tensor passes on.

They are as large as what was picked from. Where torch adds several of them up, nobody but us would
hold them: so what is kept is how to make them again, by the operation that torch ran.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..schema.details import TensorSummary
from ..torch_api.modes import unseen
from ..torch_api.reading import has_data
from ..torch_api.saved_tensors import plain_value
from ..torch_api.summary import MOST_VALUES, Summarise, summarise, without_values
from ..torch_api.tensors import version_of
from .kept_gradients import CHANGED, GradientStore, KeptGradient
from .statistics import has_norm, padded, statistics_of

Gradients = Sequence[torch.Tensor | None]

_SELECT, _SLICE = "SelectBackward0", "SliceBackward0"


def are_padding(nodes: Sequence[Node]) -> Iterator[int]:
    """The nodes, by id, that pass on what came in with zeros around it, as long as no hook does."""
    classes = {cls for cls in set(map(type, nodes)) if cls.__name__ in (_SELECT, _SLICE)}
    for i, node in enumerate(nodes if classes else ()):
        if type(node) in classes:
            yield i


def are_added_up(nodes: Sequence[Node], padding: Sequence[int]) -> set[int]:
    """Of these nodes those of which torch adds up what they pass on, and then lets go of it."""
    places = {i: nodes[i].next_functions[0] for i in padding}
    count = Counter(places.values())
    return {i for i, place in places.items() if count[place] > 1}


@dataclass(frozen=True, slots=True)
class Padding:
    """Stands for a padded gradient that flowed, and is not held.

    Attributes:
        node: The node that passed it on.
        shape: Its shape.
        dtype: Its dtype.
        device: Where it was.
        nbytes: How large it was.
        _version: Nobody can have changed it: when it was seen it was new.
    """

    node: Node | None
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    nbytes: int
    _version: int = 0


def without_padding(node: Node | None, passed: Gradients, came: Gradients) -> Any:
    """What a node of `are_padding` passed on, without what can be made again.

    Args:
        node: The node.
        passed: The gradients that it passed on: one.
        came: Those that came in: one.
    """
    (one,), (other,) = passed, came
    if (
        type(one) is type(other) is torch.Tensor
        and one.numel() > other.numel()
        and one.layout is other.layout is torch.strided
        and one.dtype is other.dtype
        and one.is_contiguous()
        and not (one.is_inference() or other.is_inference())  # to be looked at closely
    ):
        return (Padding(node, one.shape, one.dtype, one.device, one.nbytes),)
    return passed


def keep_padding(keeper: GradientStore, padding: Padding, middle: KeptGradient) -> KeptGradient:
    """Keep a padded gradient, by way of the other one.

    Args:
        keeper: Knows how much may be kept. This counts as if it were held: it is, once its values
            have been asked for.
        padding: What stands for it.
        middle: What came in.
    """
    like = torch.empty((), dtype=padding.dtype, device=padding.device).expand(padding.shape)
    there, known = middle.tensor, middle.statistics
    is_free = like.numel() <= MOST_VALUES or (there is not None and not has_data(there))
    size = 0 if is_free else padding.nbytes
    if there is not None and (not size or size <= keeper.bytes_left):
        keeper.count(size)
        return Padded(middle, _making(padding), like)
    if there is not None and known is None and has_norm(there):
        if not there.numel():
            return keeper.without_values(like.new_zeros(()).expand(like.shape))
        known = statistics_of(there)
    if known is None and (middle.changed or middle.summary is not None):
        return KeptGradient(None, summary=_without_values(like, middle))
    statistics = None if known is None else padded(known)
    return KeptGradient(None, summary=keeper.only_statistics(like), statistics=statistics)


class Padded(KeptGradient):
    """A padded gradient, made when its values are asked for, and then held."""

    __slots__ = ("_like", "_make", "_middle")

    def __init__(
        self, middle: KeptGradient, make: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor
    ) -> None:
        """Remember how to make it.

        Args:
            middle: What is in the middle of it.
            make: Puts the zeros around that.
            like: A tensor of its shape, dtype and device.
        """
        super().__init__(None)
        self._middle = middle
        self._make = make
        self._like = like

    @property
    def tensor(self) -> torch.Tensor | None:
        """Its values; None when they are not known: what is in the middle was changed before."""
        there = self._middle.tensor if self._flowed is None else None
        if there is not None:
            with torch.inference_mode(False), torch.no_grad(), unseen():
                made = self._make(there)
            self.version = version_of(made)
            self._flowed = made
        return super().tensor

    @property
    def changed(self) -> bool:
        """Whether it was changed in place since; or what is in the middle, before it was made."""
        return self._middle.changed if self._flowed is None else super().changed

    def summarise(self, summarised: Summarise = summarise) -> TensorSummary:
        """The gradient as plain values."""
        if self.tensor is None and self._flowed is None:
            return _without_values(self._like, self._middle)
        return super().summarise(summarised)


def _without_values(like: torch.Tensor, middle: KeptGradient) -> TensorSummary:
    """What is left of a padded gradient where what is in the middle of it is not known."""
    summary = without_values(like)
    summary["note"] = CHANGED if middle.changed or not middle.summary else middle.summary["note"]
    return summary


def _making(padding: Padding) -> Callable[[torch.Tensor], torch.Tensor]:
    """What torch's backward of the node calls; it holds numbers alone, and not the node."""

    def number(name: str, otherwise: int) -> int:
        value = plain_value(padding.node, name)
        value = otherwise if value is None else int(value)
        return value - 2**64 if value >= 2**63 else value  # torch tells it without a sign

    sizes = list(padding.shape)
    if type(padding.node).__name__ == _SELECT:
        at = [number("dim", 0), number("index", 0)]
        return functools.partial(_selected, sizes=sizes, at=at)
    at = [number("dim", 0), number("start", 0), number("end", 2**63 - 1), number("step", 1)]
    return functools.partial(_sliced, sizes=sizes, at=at)


def _selected(grad: torch.Tensor, sizes: list[int], at: list[int]) -> torch.Tensor:
    return torch.ops.aten.select_backward(grad, sizes, *at)  # type: ignore[no-any-return]


def _sliced(grad: torch.Tensor, sizes: list[int], at: list[int]) -> torch.Tensor:
    return torch.ops.aten.slice_backward(grad, sizes, *at)  # type: ignore[no-any-return]
