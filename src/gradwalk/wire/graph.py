"""The graph that is drawn."""

from __future__ import annotations

from typing import TypedDict

from .values import EdgeKind, Kind


class NoGradInput(TypedDict):
    """An operand that needs no gradient: a ``None`` in ``next_functions``."""

    input_nr: int
    argument: str | None


class NodeModel(TypedDict):
    """One node, as much of it as the drawing needs. The autograd nodes come first."""

    id: int
    kind: Kind
    op: str
    label: str
    name: str | None
    shape: list[int] | None
    no_grad_inputs: list[NoGradInput]
    namespace: str | None
    value: str | None
    inferred: bool


class EdgeModel(TypedDict):
    """From a node to the producer of one of its inputs: the way gradients flow.

    Those along which gradients can flow come first. Of the others ``input_nr`` may be None.
    """

    source: int
    target: int
    argument: str | None
    input_nr: int | None
    output_nr: int
    kind: EdgeKind


class RootModel(TypedDict):
    """One tensor handed to the widget."""

    node: int
    output_nr: int
    name: str | None


class ModulesModel(TypedDict):
    """The classes of modules; ``classes`` has, per namespace, a place in ``names``."""

    namespaces: list[str]
    classes: list[int]
    names: list[str]


class GraphModel(TypedDict):
    """What the browser draws; ``static`` says that it is a static graph, without gradients."""

    v: int
    static: bool
    modules: ModulesModel
    nodes: list[NodeModel]
    edges: list[EdgeModel]
    roots: list[RootModel]


class DtypesModel(TypedDict):
    """The dtype of every node: its place among the names, -1 where torch does not tell."""

    names: list[str]
    nodes: list[int]
