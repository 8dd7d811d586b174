"""Types of arguments that many functions share, for annotations of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar, Union, runtime_checkable

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, Node
from torch.export import ExportedProgram
from torch.fx import GraphModule

from .lazily import nx

Outputs: TypeAlias = Union[  # noqa: UP007  it names itself
    torch.Tensor, GradientEdge, Node, Sequence["Outputs"], Mapping[str, "Outputs"]
]
"""Outputs where backward starts, such as a tensor or a ``Node``, or lists, tuples and dicts."""

Program: TypeAlias = GraphModule | ExportedProgram
"""A static graph, which ``torch.fx.symbolic_trace`` or ``torch.export.export`` returned."""

TensorNames: TypeAlias = Mapping[str, torch.Tensor | nn.Module] | nn.Module
"""Names of tensors, as a mapping from names to tensors or modules, or one module."""

Graphs: TypeAlias = (
    Outputs | Program | Sequence[Outputs | Program] | Mapping[str, Outputs | Program]
)
"""Graphs to compare, as a mapping from labels to graphs, or graphs one by one or in a list."""

CompareNames: TypeAlias = TensorNames | Mapping[str, TensorNames]
"""Names of tensors for all graphs of a comparison, or such for each label."""

Gradient: TypeAlias = torch.Tensor | Sequence[torch.Tensor | None]
"""The gradient that backward starts from, as a tensor, or one per output."""

Inputs: TypeAlias = torch.Tensor | GradientEdge | Iterable[torch.Tensor | GradientEdge]
"""What backward accumulates into."""

RetainGraph: TypeAlias = bool | Literal["if_possible"] | None
"""Whether backward keeps the saved tensors; None follows ``create_graph``, as in torch."""

Edge: TypeAlias = tuple[int, int] | torch.Tensor | str
"""An edge, (consumer id, arg_nr); or a tensor or its name, for all edges that flow to it."""

_V = TypeVar("_V")

ByEdge: TypeAlias = (
    Mapping[tuple[int, int], _V] | Mapping[torch.Tensor, _V] | Mapping[str, _V] | Mapping[Edge, _V]
)
"""A value for each of some edges."""

ByNode: TypeAlias = Mapping[int, _V] | Mapping[str, _V] | Mapping[int | str, _V]
"""A value for each of some nodes, by id or name."""

Replacement: TypeAlias = torch.Tensor | Callable[[torch.Tensor], torch.Tensor | None]
"""A gradient to use instead; or a function of the gradient, as ``Tensor.register_hook`` takes."""

Optimizer: TypeAlias = (
    Callable[[list[nn.Parameter]], torch.optim.Optimizer] | torch.optim.Optimizer | str
)
"""A function that makes an optimizer, such as its class; an instance; or the name of a class."""


class RecordedGraph(Protocol):
    """A graph with its backward pass, such as a `gradwalk.GraphWidget` or a recording."""

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The graph as networkx."""

    @property
    def cursor(self) -> int:
        """The number of completed steps."""


@runtime_checkable
class HasWidget(Protocol):
    """A result with a picture, such as a `gradwalk.results.Interact`."""

    @property
    def widget(self) -> RecordedGraph | None:
        """The picture."""
