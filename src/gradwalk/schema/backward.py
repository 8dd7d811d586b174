"""What has been seen of backward: its state, its steps, and what flowed."""

from __future__ import annotations

from typing import Literal, TypedDict

from .values import AutogradNodeId, Count, GradientEdgePlace, JsonNumber, Values


class StateModel(TypedDict):
    """What the widget has seen of backward. Changes while the graph stays."""

    runs: Count
    """How many backward passes through this graph have been seen."""
    reached: list[AutogradNodeId]
    """Nodes that a gradient flowed into in the last of them."""
    flowed: list[GradientEdgePlace]
    """Places in ``edges`` of those that a gradient was passed along then."""
    freed: list[AutogradNodeId]
    """Nodes whose saved tensors torch has freed: a second backward through them fails."""
    held: list[HeldModel]
    """What small leaves hold in ``.grad`` while no pass is shown, which then says it."""
    note: str
    """One sentence for the status line."""


class StepModel(TypedDict):
    """One node's backward, in the engine's order. The trait ``steps`` is a list of these."""

    step: Count
    node: AutogradNodeId
    op: str
    name: str | None
    """User text."""
    accumulated: str | None
    """What this step adds to, "x.grad"; None when it stores nothing. User text."""
    ready: Count
    """After how many steps all gradients of this node had arrived."""


class SeedModel(TypedDict):
    """The gradient that backward started from at one output."""

    node: AutogradNodeId
    output_nr: Count
    values: Values | None
    norm: JsonNumber | None


class FewModel(TypedDict):
    """A gradient in few numbers: its values if it has at most six, and its norm."""

    values: Values | None
    norm: JsonNumber | None


class HeldModel(FewModel):
    """What the ``.grad`` of a leaf holds."""

    node: AutogradNodeId


class GrownModel(HeldModel):
    """What the ``.grad`` of a leaf, or of a tensor that retains it, held after a node's step."""

    before: FewModel | None
    """What it held before the pass; None when it was None."""
    changed: bool
    """Whether something else has changed it since, such as clipping or ``zero_grad()``."""
    now: FewModel | None
    """What it then holds now; None when it is None."""


class ArrivedModel(TypedDict):
    """The gradient of a node's output, all shares added up, where that is not one edge's alone."""

    node: AutogradNodeId
    values: Values | None
    norm: JsonNumber | None


class MarkModel(TypedDict):
    """A node where something went wrong, and the sentence that says what."""

    node: AutogradNodeId
    kind: Literal["error", "nan"]
    note: str


class RunModel(TypedDict):
    """What flowed in the backward pass whose steps are shown, in few numbers.

    ``edges``, ``values`` and ``norms`` are aligned: one entry per edge that carried a gradient.
    ``values`` has the numbers of gradients of at most six, None of larger ones.
    """

    run: Count
    ended: Literal["done", "stopped"]
    seeds: list[SeedModel]
    edges: list[GradientEdgePlace]
    """Places in ``edges`` of the graph."""
    values: list[Values | None]
    """Numbers of gradients of at most six, None of larger ones."""
    norms: list[JsonNumber | None]
    arrived: list[ArrivedModel]
    """Of nodes that several edges lead to, or at which a hook changed what had arrived."""
    grads: list[GrownModel]
    marks: list[MarkModel]


class TransportModel(TypedDict):
    """Whether travelling moves ``.grad``, and what the bar has to say."""

    owned: bool
    note: str | None
    blocked: str | None
    """Why no backward can be started; None when one can."""
