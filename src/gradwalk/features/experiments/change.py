"""What is changed about gradients: at an edge, or at a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from ...graph.attributes import Place
from ...torch_api.reading import first_line

Kind = Literal["cut", "scale", "replace"]


@dataclass(frozen=True)
class Edit:
    """One change.

    Attributes:
        kind: "cut", "scale" or "replace".
        edge: (consumer, input_nr) of the one edge that is changed; None when all edges into
            ``place`` are, as one: what is changed is then their sum.
        place: (node, output_nr) of the tensor that the gradient is of.
        value: The factor; the tensor or the function that replaces; None of a cut.
        label: What to call it: "out → h".
    """

    kind: Kind
    edge: Place | None
    place: Place
    value: Any
    label: str

    def __call__(self, grad: torch.Tensor | None) -> torch.Tensor | None:
        """The gradient that flows instead of one.

        Raises:
            RuntimeError: The reader's function raised.
            TypeError: It gave no tensor, or one of another dtype or device.
            ValueError: It gave one of another shape.
        """
        if self.kind == "cut":
            return None
        if self.kind == "scale":
            return None if grad is None else grad * self.value
        if isinstance(self.value, torch.Tensor):
            return self.value
        if grad is None:
            return None
        # A copy, as the function may change it in place: others hold the same tensor.
        own = grad.clone()
        found = self._call(own)
        return own if found is None else fitting(found, grad, self.label)

    def _call(self, grad: torch.Tensor) -> Any:
        try:
            return self.value(grad)
        except Exception as error:
            called = getattr(self.value, "__name__", type(self.value).__name__)
            said = first_line(error).rstrip(".")
            raise RuntimeError(
                f"replace was given {called} for the gradient at {self.label}, and it raised "
                f"{type(error).__name__}: {said}. Nothing was changed. Give a function that takes "
                f"this gradient, of shape {tuple(grad.shape)} and {grad.dtype}, and returns one "
                "like it, or None to leave it."
            ) from error


def same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two gradients are the same, number by number; NaN is the same as NaN."""
    if one is None or other is None or one is other:
        return one is other
    if one.is_nested:
        return torch.equal(one, other)
    if one.layout is not torch.strided or other.layout is not torch.strided:
        return _same_sparse(one, other)
    # One pass tells most, and stops at the first difference; NaN, unequal to itself, needs another.
    if torch.equal(one, other):
        return True
    if not bool(one.isnan().any()):
        return False
    return bool(torch.eq(one, other).logical_or_(one.isnan().logical_and_(other.isnan())).all())


def _same_sparse(one: torch.Tensor, other: torch.Tensor) -> bool:
    """The same where one is sparse at least, as the gradient of ``Embedding(sparse=True)``."""
    if one.layout is not other.layout:
        return same(one.to_dense(), other.to_dense())
    one, other = (each.to_sparse().coalesce() for each in (one, other))
    places = torch.equal(one.indices(), other.indices())
    return places and one.shape == other.shape and same(one.values(), other.values())


def fitting(found: Any, like: Any, label: str) -> torch.Tensor:
    """A replacement, checked against what it replaces.

    Args:
        found: The replacement.
        like: Something of the right shape, dtype and device.
        label: What to call the edge.

    Raises:
        TypeError: It is no tensor, or of another dtype or device.
        ValueError: It is of another shape.
    """
    if not isinstance(found, torch.Tensor):
        raise TypeError(
            f"replace gave {found!r}, of type {type(found).__name__}, for the gradient at {label}. "
            "Give a tensor, or a function of the gradient that returns one."
        )
    if tuple(found.shape) != tuple(like.shape):
        raise ValueError(
            f"replace gave a tensor of shape {tuple(found.shape)} for the gradient at {label}, "
            f"which has shape {tuple(like.shape)}. It needs one number for each of them."
        )
    if found.dtype != like.dtype or found.device != like.device:
        raise TypeError(
            f"replace gave a tensor of {found.dtype} on {found.device} for the gradient at {label},"
            f" which is of {like.dtype} on {like.device}. Convert it with .to(grad)."
        )
    return found


@dataclass
class Edits:
    """Changes to make in one pass, in order.

    Attributes:
        listed: The changes.
        cut_edges: The edges through which nothing flows.
        cut_places: The tensors that nothing flows to.
        flowed: What flowed through each edge that was changed by itself and that gradients came to.
    """

    listed: Sequence[Edit] = ()
    cut_edges: set[Place] = field(init=False)
    cut_places: set[Place] = field(init=False)
    flowed: dict[Place, torch.Tensor | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        cuts = [each for each in self.listed if each.kind == "cut"]
        self.cut_edges = {each.edge for each in cuts if each.edge is not None}
        self.cut_places = {each.place for each in cuts if each.edge is None}
        self._on_edge: dict[Place, list[Edit]] = {}
        self._at_place: dict[Place, list[Edit]] = {}
        for each in self.listed:
            if each.edge is not None:
                self._on_edge.setdefault(each.edge, []).append(each)
            else:
                self._at_place.setdefault(each.place, []).append(each)

    def on_edge(self, edge: Place, grad: torch.Tensor | None) -> torch.Tensor | None:
        """What flows through an edge instead of a gradient."""
        if edge not in self._on_edge:
            return grad
        # A function of the reader's is called once, so what it gave is kept for who asks.
        self.flowed[edge] = _changed(self._on_edge[edge], grad)
        return self.flowed[edge]

    def at_place(self, place: Place, grad: torch.Tensor | None) -> torch.Tensor | None:
        """What arrives at a tensor instead of a gradient."""
        return _changed(self._at_place.get(place, ()), grad)


def _changed(
    edits: Sequence[Callable[[torch.Tensor | None], torch.Tensor | None]],
    grad: torch.Tensor | None,
) -> torch.Tensor | None:
    for edit in edits:
        grad = edit(grad)
    return grad
