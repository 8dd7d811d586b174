"""Changes of gradients, at an edge or at a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from ...graph.capture import Place
from ...torch_api.reading import first_line

Kind = Literal["cut", "scale", "replace"]


@dataclass(frozen=True)
class Edit:
    """One change of a gradient."""

    kind: Kind  # "cut", "scale" or "replace"
    # (consumer, arg_nr) of the changed edge; None to change the sum of all edges into ``place``.
    edge: Place | None
    place: Place  # (node, output_nr) of the tensor of the gradient
    value: Any  # the factor, or the replacing tensor or function; None for a cut
    label: str  # its label: "out → h"

    def __call__(self, grad: torch.Tensor | None) -> torch.Tensor | None:
        """Return the changed gradient."""
        if self.kind == "cut":
            return None
        if self.kind == "scale":
            return None if grad is None else grad * self.value
        if isinstance(self.value, torch.Tensor):
            return self.value
        if grad is None:
            return None
        # The function may change it in place, and other nodes hold the same tensor.
        own = grad.clone()
        found = self._call(own)
        return own if found is None else fitting(found, grad, self.label)

    def _call(self, grad: torch.Tensor) -> Any:
        try:
            return self.value(grad)
        except Exception as error:
            called = getattr(self.value, "__name__", type(self.value).__name__)
            why = first_line(error).rstrip(".")
            raise RuntimeError(
                f"replace was given {called} for the gradient at {self.label}, and it raised "
                f"{type(error).__name__}: {why}. Nothing was changed. Give a function that takes "
                f"this gradient, of shape {tuple(grad.shape)} and {grad.dtype}, and returns one "
                "like it, or None to leave it."
            ) from error


def same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Return whether two gradients are equal, number by number; NaN equals NaN."""
    if one is None or other is None or one is other:
        return one is other
    if one.is_nested:
        return torch.equal(one, other)
    if one.layout is not torch.strided or other.layout is not torch.strided:
        return _same_sparse(one, other)
    # torch.equal() stops at the first difference; NaN needs a second pass.
    if torch.equal(one, other):
        return True
    if not bool(one.isnan().any()):
        return False
    return bool(torch.eq(one, other).logical_or_(one.isnan().logical_and_(other.isnan())).all())


def _same_sparse(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two gradients are equal, if one is sparse as of ``Embedding(sparse=True)``."""
    if one.layout is not other.layout:
        return same(one.to_dense(), other.to_dense())
    one, other = (each.to_sparse().coalesce() for each in (one, other))
    places = torch.equal(one.indices(), other.indices())
    return places and one.shape == other.shape and same(one.values(), other.values())


def fitting(found: Any, like: Any, label: str) -> torch.Tensor:
    """Check a replacement against the gradient that it replaces, and return it."""
    if not isinstance(found, torch.Tensor):
        raise TypeError(
            f"replace gave {found!r}, of type {type(found).__name__}, for the gradient at {label}. "
            "Give a tensor, or a function of the gradient that returns one."
        )
    if tuple(found.shape) != tuple(like.shape):
        raise ValueError(
            f"replace gave a tensor of shape {tuple(found.shape)} for the gradient at {label}, "
            f"which has shape {tuple(like.shape)}. Give one number for each of its numbers."
        )
    if found.dtype != like.dtype or found.device != like.device:
        raise TypeError(
            f"replace gave a tensor of {found.dtype} on {found.device} for the gradient at {label},"
            f" which is of {like.dtype} on {like.device}. Convert it with .to(grad)."
        )
    return found


@dataclass
class Edits:
    """Changes to make in one pass, in order."""

    listed: Sequence[Edit] = ()  # the changes
    cut_edges: set[Place] = field(init=False)  # the edges through which nothing flows
    cut_places: set[Place] = field(init=False)  # the tensors to which nothing flows
    # The gradient that flowed through each edge changed by itself.
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
        """Return the changed gradient of an edge."""
        if edge not in self._on_edge:
            return grad
        # The user's function is called once, so its result is kept.
        self.flowed[edge] = _changed(self._on_edge[edge], grad)
        return self.flowed[edge]

    def at_place(self, place: Place, grad: torch.Tensor | None) -> torch.Tensor | None:
        """Return the changed gradient of a tensor."""
        return _changed(self._at_place.get(place, ()), grad)


def _changed(
    edits: Sequence[Callable[[torch.Tensor | None], torch.Tensor | None]],
    grad: torch.Tensor | None,
) -> torch.Tensor | None:
    for edit in edits:
        grad = edit(grad)
    return grad
