"""The recorded backward pass: state, steps and gradients."""

from __future__ import annotations

from typing import Literal, TypedDict

from .values import AutogradNodeId, Count, GradientEdgePlace, JsonNumber, Values


class StateModel(TypedDict):
    """The state of backward. It changes while the graph stays the same."""

    runs: Count
    """Number of backward passes recorded through this graph."""
    reached: list[AutogradNodeId]
    """Nodes that received a gradient in the last pass."""
    flowed: list[GradientEdgePlace]
    """Indices in ``edges`` of the edges that carried a gradient in the last pass."""
    freed: list[AutogradNodeId]
    """Nodes whose saved tensors torch has freed: a second backward through them fails."""
    held: list[HeldModel]
    """The ``.grad`` of leaves. Empty while a pass is shown, which has them itself."""
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
    """The ``.grad`` that this step adds to, "x.grad"; None when it stores nothing. User text."""
    ready: Count
    """Number of steps after which all gradients of this node had arrived."""


class SeedModel(TypedDict):
    """The gradient that backward started from at one output."""

    node: AutogradNodeId
    output_nr: Count
    values: Values | None
    norm: JsonNumber | None


class FewModel(TypedDict):
    """A gradient's norm, and its values if there are at most six."""

    values: Values | None
    norm: JsonNumber | None


class HeldModel(FewModel):
    """The ``.grad`` of a leaf."""

    node: AutogradNodeId


class GrownModel(HeldModel):
    """The ``.grad`` of a leaf or of a tensor with ``retain_grad()``, after a node's step."""

    before: FewModel | None
    """The ``.grad`` before the pass; None when it was None."""
    changed: bool
    """Whether something has changed it since, such as clipping or ``zero_grad()``."""
    now: FewModel | None
    """If changed, the ``.grad`` now; None when it is None."""


class ArrivedModel(TypedDict):
    """The total gradient of a node's output, where it differs from the gradient of one edge."""

    node: AutogradNodeId
    values: Values | None
    norm: JsonNumber | None


class MarkModel(TypedDict):
    """A node where backward failed or produced NaN, and a sentence about it."""

    node: AutogradNodeId
    kind: Literal["error", "nan"]
    note: str


class RunModel(TypedDict):
    """The gradients of the backward pass that is shown.

    ``edges``, ``values`` and ``norms`` have one entry per edge that carried a gradient.
    """

    run: Count
    ended: Literal["done", "stopped"]
    seeds: list[SeedModel]
    edges: list[GradientEdgePlace]
    """Indices in ``edges`` of the graph."""
    values: list[Values | None]
    """The values of each gradient with at most six; None for a larger one."""
    norms: list[JsonNumber | None]
    arrived: list[ArrivedModel]
    """For nodes with several incoming edges, or with a hook that changed the gradient."""
    grads: list[GrownModel]
    marks: list[MarkModel]


class TransportModel(TypedDict):
    """Whether moving the cursor changes ``.grad``, and the messages beside the controls."""

    owned: bool
    note: str | None
    blocked: str | None
    """Why backward cannot run; None when it can."""
