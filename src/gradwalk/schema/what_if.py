"""Edits of gradients and their effect, and the contributions to a gradient."""

from __future__ import annotations

from typing import Literal, TypedDict

from .backward import FewModel
from .values import AutogradNodeId, Count, Values


class EditModel(TypedDict):
    """A change of a gradient on an edge. The trait ``edits`` is a list of these."""

    kind: Literal["cut", "scale", "replace"]
    edge: list[int] | str
    """[consumer, arg_nr] with the graph's ids; or a tensor's name, for all edges into it as one.
    User text."""
    value: Values | None
    """The factor, or the values that replace the gradient; None for a cut."""
    name: str | None
    """The reader's name for it. Edits with the same name form a group; groups are compared. User
    text."""
    off: bool
    """Whether the edit is disabled: listed and compared by its name, but not applied."""


class EditedModel(TypedDict):
    """The effect of an edit on its edge."""

    label: str
    """Its edge, "out → h". User text."""
    was: FewModel | None
    """The gradient before the edit; None where there is none, and if the edit is disabled."""
    now: FewModel | None


class NamedChangeModel(TypedDict):
    """The gradient of a leaf with only the edits of one name."""

    after: FewModel | None
    changed: bool
    """Whether it differs from the gradient without edits."""


class LeafChangeModel(TypedDict):
    """The gradient of a leaf without and with the edits."""

    node: AutogradNodeId
    name: str | None
    """User text."""
    before: FewModel | None
    after: FewModel | None
    difference: FewModel | None
    """After minus before; None where they are the same."""
    rest: float | None
    """The norm after divided by the norm before; None if it was zero or did not change."""
    named: list[NamedChangeModel]
    """The gradient with only the edits of each of ``names``."""


class NodeChangeModel(TypedDict):
    """The incoming gradient of a node below an edit."""

    node: AutogradNodeId
    after: FewModel | None
    """None where no gradient arrives any more."""


class WhatIfModel(TypedDict):
    """The effect of the edits."""

    failed: str | None
    """Why the effect could not be computed; the other fields are then empty."""
    edits: list[EditedModel]
    leaves: list[LeafChangeModel]
    """The first leaves; changed ones come first."""
    leaf_count: Count
    names: list[str]
    """The names of the compared edits, in order; empty if there are fewer than two. User text."""
    reached: list[AutogradNodeId]
    """The nodes below an edit, which were replayed or received another gradient."""
    nodes: list[NodeChangeModel]
    """The same nodes with their new gradients; empty if there are many."""
    ran: Count
    """Number of replayed nodes."""
    code: str
    """Code that makes the same change in the program. User text."""
    notes: list[str]


class ShareModel(TypedDict):
    """One edge's contribution to a node's gradient in the backward pass that is shown."""

    consumer: AutogradNodeId
    arg_nr: Count
    label: str
    """The consumer's label. User text."""
    share: float
    """The component along the total gradient, relative to it: the shares of a node add up to 1."""
