"""What travels of gradients that would be others, and of where one comes from."""

from __future__ import annotations

from typing import Literal, TypedDict

from .backward import FewModel
from .values import AutogradNodeId, Count, Values


class EditModel(TypedDict):
    """A change to a gradient on its way. The trait ``edits`` is a list of these."""

    kind: Literal["cut", "scale", "replace"]
    edge: list[int] | str
    """[consumer, input_nr], with the ids of the graph; or the name of a tensor, for all edges that
    flow to it, as one. User text."""
    value: Values | None
    """The factor; the numbers that replace the gradient; None of a cut."""
    name: str | None
    """What the reader calls it; edits of one name are one, compared with those of another. User
    text."""
    off: bool
    """Whether it is not made now: it is only listed and, by its name, compared."""


class EditedModel(TypedDict):
    """What an edit does."""

    label: str
    """Where it is, "out → h". User text."""
    was: FewModel | None
    """What flows there; None for nothing, and for both where it is off."""
    now: FewModel | None


class NamedChangeModel(TypedDict):
    """The gradient of a leaf with the edits of one name alone."""

    after: FewModel | None
    changed: bool
    """Whether it is another than without edits."""


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
    """The part of it that is left, as a norm over a norm; None of nothing."""
    named: list[NamedChangeModel]
    """The same with the edits of each of ``names`` alone."""


class WhatIfModel(TypedDict):
    """What the edits do."""

    failed: str | None
    """A sentence where it could not be worked out; the rest is then empty."""
    edits: list[EditedModel]
    leaves: list[LeafChangeModel]
    """The first of them, those that change before all others."""
    leaf_count: Count
    names: list[str]
    """Of the edits that are compared, in order; none where there are not two. User text."""
    reached: list[AutogradNodeId]
    """The nodes below an edit, which ran again or got another gradient."""
    ran: Count
    """How many of the graph's nodes ran again."""
    code: str
    """The change of the program that does it for real. User text."""
    notes: list[str]


class ShareModel(TypedDict):
    """How much of a node's gradient came along one edge, in the backward pass that is shown."""

    consumer: AutogradNodeId
    input_nr: Count
    label: str
    """What passed it on. User text."""
    share: float
    """Along the gradient's own direction: those of a node add up to 1."""
