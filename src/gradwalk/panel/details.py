"""The panel's details of one node, as plain JSON values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch.autograd.graph import Node

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun, Step
from ..derivatives.chain import chain_model, has_chain
from ..derivatives.evaluation import fill_in, take_many
from ..explain import describe_node as why
from ..explain.causes import reason_of
from ..explain.loss_graph import graph_of
from ..plugins import Hook
from ..schema.details import (
    DetailsModel,
    FormulaModel,
    InputModel,
    SavedModel,
    TensorSummary,
    ValueModel,
)
from ..schema.values import NodeState
from ..torch_api.compiled import is_compiled
from ..torch_api.nodes import custom_function, leaf_tensor
from ..torch_api.saved_tensors import saved_models
from ..torch_api.signatures import signature
from ..torch_api.summary import Summarise
from ..tracing.annotate import Annotated
from ..tracing.values import Drawn
from .blank import blank_details
from .details_reader import DetailsReader, Parts
from .extra_details import MOST_LISTED, extra_details, undrawn_inputs, watched_details
from .flow_details import arrived, count_by_now, passed_on, shares, shares_by_now
from .function_details import function_model, operations_of
from .neighbours import consumers_of, inputs_of, outputs_of
from .value import value_model

SAVED_NAMES: Hook[Callable[[Annotated, int], Sequence[str]]] = Hook()
"""Functions that name the tensors a node saved; they return an empty list for other nodes."""


class FixedDetails(NamedTuple):
    """The details that do not depend on the cursor.

    Attributes:
        fields: The details; those that depend on the cursor are empty.
        tensor: The leaf, or the first output of an operation if it is known and alive.
    """

    fields: DetailsModel
    tensor: torch.Tensor | None


def details(
    looking: DetailsReader,
    node_id: int,
    recording: RecordedPass | None,
    drawn: Drawn,
    *,
    without_grad: bool = False,
) -> DetailsModel:
    """Describe one node.

    Args:
        looking: Reads the graph and the shown pass.
        node_id: The id of the node.
        recording: The shown pass and its cursor; None before the first pass.
        drawn: The values in the picture.
        without_grad: Whether to leave out ``.grad``, which the caller fills in.

    Returns:
        The contents of the panel. ``grad`` is the tensor's current ``.grad``; the other gradients
        come from the shown pass, at the cursor. If one is None, ``grad_note`` says why. A part
        that raises is empty, and ``failed`` says why.
    """
    captured, summarised = looking.captured, looking.summaries.of
    if node_id >= len(captured.nodes):
        return extra_details(captured, node_id, drawn.values.get(node_id), summarised)
    graph = captured.graph
    data = graph.nodes[node_id]
    run = recording.run if recording is not None else None
    state, step = _at_cursor(recording, node_id)
    parts = looking.parts_of(node_id)
    still = parts.once(lambda: _still(looking, parts, node_id, drawn, run))
    tensor, inputs = still.tensor, still.fields["inputs"]
    stored = None
    if not without_grad:
        stored = parts.build("grad", lambda: _stored(tensor, summarised), None)
    grad_output, grad_input = None, None
    if run is not None and step is not None:
        grad_output = parts.build(
            "grad_output", lambda: arrived(graph, run, step, summarised), None
        )
        grad_input = parts.build("grad_input", lambda: passed_on(step, inputs, summarised), None)
    operations, operation_count = operations_of(None if step is None else run, node_id, summarised)
    contributions = None
    if run is not None:
        contributions = parts.build(
            "contributions", lambda: shares(graph, run, node_id, summarised), None
        )
    about = parts.build(
        "about",
        lambda: why.what_is(data, captured.nodes[node_id], _first_arrived(step)),
        None,
    )
    return {
        **still.fields,
        "about": about or str(parts.why("about")),
        "grad": stored,
        "grad_output": grad_output,
        "grad_input": grad_input,
        "grad_note": {
            "grad": parts.why("grad")
            or (
                None
                if without_grad or stored is not None
                else why.no_grad(graph, node_id, tensor, run, state)
            ),
            "grad_output": parts.why("grad_output")
            or (None if grad_output else why.no_flow(run, state)),
            "grad_input": parts.why("grad_input")
            or (None if grad_input else why.nothing_passed_on(data, run, state)),
        },
        "state": state,
        "contributions": shares_by_now(contributions, recording),
        "contribution_count": count_by_now(graph, recording, node_id),
        "formula": parts.build(
            "formula",
            lambda: _formulas(looking, node_id, step, inputs),
            [],
            filled=step is not None,
        ),
        "operations": operations,
        "operation_count": operation_count,
        "failed": list(parts.failed),
    }


def _still(
    looking: DetailsReader, parts: Parts, node_id: int, drawn: Drawn, run: RecordedRun | None
) -> FixedDetails:
    """The details that are the same at every cursor."""
    captured, summarised = looking.captured, looking.summaries.of
    graph, node = captured.graph, captured.nodes[node_id]
    data = graph.nodes[node_id]
    leaf = leaf_tensor(node)
    inputs, input_count = inputs_of(graph, node_id)
    outputs, output_count = outputs_of(graph, node_id)
    consumers, consumer_count = consumers_of(graph, node_id)
    unknown: tuple[ValueModel | None, str | None] = None, None
    value, note = parts.build(
        "value", lambda: value_model(captured, node_id, drawn, summarised), unknown
    )
    nothing: tuple[list[SavedModel], int] = ([], 0)
    saved, saved_count = parts.build(
        "saved", lambda: _saved(captured, node_id, summarised), nothing
    )
    undrawn = undrawn_inputs(captured, node_id)
    watched = watched_details(captured, node_id)
    fields: DetailsModel = {
        **blank_details(graph, node_id, "", ""),
        "forward": parts.build("forward", lambda: _forward(node, data["op"]), None),
        "requires_grad": leaf.requires_grad if leaf is not None else True,
        "is_leaf": leaf is not None,
        "outputs": outputs,
        "output_count": output_count,
        "saved": saved,
        "saved_count": saved_count,
        "inputs": inputs,
        "input_count": input_count + len(undrawn) + len(watched["constants"]),
        "no_grad_inputs": undrawn[:MOST_LISTED],
        "consumers": consumers,
        "consumer_count": consumer_count,
        "value": value,
        "value_note": parts.why("value") or note,
        "chain": parts.build(
            "chain",
            lambda: chain_model(looking.along, node_id) if has_chain(graph, node_id) else None,
            None,
        ),
        **watched,
        "constants": watched["constants"][:MOST_LISTED],
        "function": parts.build("function", lambda: function_model(node), None),
        "explained": parts.build(
            "explained",
            lambda: None if leaf is None else _explained(captured, leaf, data["name"], run),
            None,
        ),
    }
    return FixedDetails(fields, leaf if leaf is not None else _intermediate(captured, node_id))


def _stored(tensor: torch.Tensor | None, summarised: Summarise) -> TensorSummary | None:
    """A summary of a tensor's ``.grad``."""
    keeps = tensor is not None and (tensor.is_leaf or tensor.retains_grad)
    grad = tensor.grad if tensor is not None and keeps else None
    return None if grad is None else summarised(grad)


def _explained(
    captured: Annotated, leaf: torch.Tensor, name: str | None, run: RecordedRun | None
) -> str:
    return reason_of(leaf, name, graph_of(captured, run)).sentence


def _at_cursor(recording: RecordedPass | None, node: int) -> tuple[NodeState, Step | None]:
    """The state of a node at the cursor, and its step if that has run."""
    if recording is None:
        return "waiting", None
    state = recording.state(node)
    return state, recording.run.steps[node] if state in {"running", "done"} else None


def _formulas(
    looking: DetailsReader, node_id: int, step: Step | None, inputs: list[InputModel]
) -> list[FormulaModel]:
    found = looking.along.formulas(node_id, {edge["input_nr"] for edge in inputs})
    came = [] if step is None else [_tensor(kept) for kept in step.grad_outputs]
    if not came or take_many(found, came):
        return found
    return fill_in([{**each} for each in found], looking.captured.nodes[node_id], came)


def _tensor(kept: KeptGradient | None) -> torch.Tensor | None:
    return None if kept is None else kept.tensor


def _intermediate(captured: Annotated, node_id: int) -> torch.Tensor | None:
    """The first output of an operation that is known and still alive."""
    for output in captured.graph.nodes[node_id]["outputs"]:
        known = captured.tensors.get((node_id, output["output_nr"]))
        tensor = known() if known is not None else None
        if tensor is not None:
            return tensor
    return None


def _first_arrived(step: Step | None) -> torch.Tensor | None:
    return _tensor(step.grad_outputs[0]) if step is not None and step.grad_outputs else None


def _saved(
    captured: Annotated, node_id: int, summarised: Summarise
) -> tuple[list[SavedModel], int]:
    """The saved tensors and values of a node, and their number."""
    node = captured.nodes[node_id]
    listed, count = saved_models(node, MOST_LISTED, summarised)
    names = next(filter(None, (name(captured, node_id) for name in SAVED_NAMES)), [])
    if len(names) == count:
        listed = [{**each, "name": name} for each, name in zip(listed, names, strict=False)]
    return listed, count


def _forward(node: Node, op: str) -> str | None:
    custom = None if is_compiled(node) else custom_function(node)
    if custom is not None:
        try:
            return f"{custom.__name__}.forward{inspect.signature(custom.forward)}"
        except (TypeError, ValueError):
            return None
    found = signature(op)
    return found.forward if found else None
