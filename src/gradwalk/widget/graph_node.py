"""`GraphNode`: what a widget knows of one node, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import StepContribution, contributions
from ..result import make, returned_by
from ..schema.details import ContributionModel, DetailsModel, TensorSummary
from ..sources.graph_source import GraphSource
from ..torch_api.modes import unseen
from ..torch_api.reading import dtype_of
from ..torch_api.summary import tensor_of
from ..tracing.values import ITSELF, value_of


@returned_by("GraphWidget(loss).node(name)")
@dataclass(frozen=True, eq=False)
class GraphNode:
    """One node of a graph, at the cursor. ``GraphWidget.node`` returns it.

    Tensors are detached. One of a graph from a file has up to 64 numbers; of a larger one a file
    has statistics only, and it is None here.

    Attributes:
        id: The node's id in the graph.
        op: The Node's class name, "MulBackward0".
        name: The name of its tensor, or None.
        about: A sentence or two about the node, as in the panel.
        shape: The shape of its output; None if it is not known, or it has several.
        dtype: The dtype of its output, or None likewise.
        requires_grad: Whether its tensor requires grad; None where a static graph lacks this.
        is_leaf: Whether it is a leaf; None likewise.
        value: The output of the operation, or the leaf; None if it is not known.
        origin: A sentence about where the value comes from; None without a value.
        grad: The tensor's ``.grad``; None if it has none, or torch does not keep it.
        grad_outputs: The incoming gradients, one per output of the node; empty before it has run.
        grad_inputs: The outgoing gradients, one per edge to a next node; likewise.
        contributions: The contributions to the incoming gradients so far, at most 100.
        saved: The names of what it saved for backward.
        chain: The chain rule from the outputs to this node in numbers; None for large graphs.
        module: The path of the module that ran it, "encoder.layers.0"; None if it is not known.
        line: The line that made it, "train.py:12"; None if it is not known.
        why: A sentence about its ``.grad``: why it is None, zero or set.
    """

    id: int
    op: str
    name: str | None
    about: str
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
    requires_grad: bool | None
    is_leaf: bool | None
    value: torch.Tensor | None
    origin: str | None
    grad: torch.Tensor | None
    grad_outputs: tuple[torch.Tensor | None, ...]
    grad_inputs: tuple[torch.Tensor | None, ...]
    contributions: tuple[StepContribution, ...]
    saved: tuple[str, ...]
    chain: str | None
    module: str | None
    line: str | None
    why: str | None


def read_node(source: GraphSource, model: DetailsModel, *, is_hidden: bool) -> GraphNode:
    """Read a node with its tensors; ``is_hidden``: a quiz hides them."""
    place, dtype, shape = model["source"], model["dtype"], model["shape"]
    captured = source.autograd
    alive = None if is_hidden else _alive(source, model["id"])
    with torch.no_grad(), unseen():
        return make(
            GraphNode,
            id=model["id"],
            op=model["op"],
            name=model["name"],
            about=model["about"],
            shape=None if shape is None else tuple(shape),
            dtype=dtype_of(dtype) if dtype and dtype.startswith("torch.") else None,
            requires_grad=model["requires_grad"],
            is_leaf=model["is_leaf"],
            value=_value(source, model),
            origin=None if model["value"] is None else model["value"]["origin"],
            grad=_tensor(model["grad"], None if alive is None else _stored(alive)),
            **_flowed(source, model),
            saved=tuple(each["name"] for each in model["saved"]),
            chain=None if model["chain"] is None else model["chain"]["written"],
            module=(captured and captured.module_of(model["id"])) or model["module"],
            line=None if place is None else f"{place['file']}:{place['line']}",
            why=model["explained"] or model["grad_note"]["grad"],
        )


def _tensor(summary: TensorSummary | None, known: torch.Tensor | None) -> torch.Tensor | None:
    """Return a summarised tensor: the known one, or one made of its numbers if all are there."""
    if summary is None or known is not None:
        return known if summary is not None else None
    if summary["truncated"] or summary["values"] is None:
        return None
    try:
        return tensor_of(summary["values"], summary["dtype"], summary["shape"])
    except (RuntimeError, TypeError, ValueError):  # of a dtype that is made in other ways
        return None


def _alive(source: GraphSource, node: int) -> torch.Tensor | None:
    """Return the tensor of a node, while it lives."""
    captured = source.autograd
    reference = None if captured is None else captured.tensors.get((node, 0))
    found = source.leaf(node)
    return found if found is not None or reference is None else reference()


def _stored(tensor: torch.Tensor) -> torch.Tensor | None:
    keeps = tensor.is_leaf or tensor.retains_grad
    return None if not keeps or tensor.grad is None else tensor.grad.detach()


def _value(source: GraphSource, model: DetailsModel) -> torch.Tensor | None:
    summary, captured, known = model["value"], source.autograd, None
    if summary is None:
        return None
    if summary["origin"] == ITSELF:
        known = source.leaf(model["id"])
    if known is None and captured is not None and model["id"] < len(captured.nodes):
        found = value_of(captured, model["id"])
        if found is not None and found.origin == summary["origin"]:
            known = found.value if isinstance(found.value, torch.Tensor) else None
    return _tensor(summary, None if known is None else known.detach())


def _flowed(source: GraphSource, model: DetailsModel) -> dict[str, Any]:
    """What flowed through a node up to the cursor."""
    node, shown = model["id"], source.recording
    run = None if shown is None else shown.run
    step = None if run is None else run.steps.get(node)
    known = iter(()) if run is None or step is None else contributions(source.graph, run, node)

    def tensors(
        summaries: Sequence[TensorSummary | None] | None, kept: Iterable[KeptGradient | None]
    ) -> tuple[torch.Tensor | None, ...]:
        alive = (None if each is None else each.tensor for each in kept)
        return tuple(_tensor(each, next(alive, None)) for each in summaries or ())

    def contribution(listed: ContributionModel) -> StepContribution:
        each = next(known, None)
        return make(
            StepContribution,
            step=listed["step"],
            consumer=listed["consumer"],
            arg_nr=listed["arg_nr"],
            output_nr=listed["output_nr"],
            grad=_tensor(listed["grad"], None if each is None else each.grad),
            total=_tensor(listed["total"], None if each is None else each.total),
        )

    passed_on = () if step is None else (step.grad_inputs[e["arg_nr"]] for e in model["inputs"])
    return {
        "grad_outputs": tensors(model["grad_output"], () if step is None else step.grad_outputs),
        "grad_inputs": tensors(model["grad_input"], passed_on),
        "contributions": tuple(map(contribution, model["contributions"] or ())),
    }
