"""Everything the panel shows of one node, as plain JSON values."""

from __future__ import annotations

import inspect
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import Node

from ..backward.kept import Kept
from ..backward.recorded_pass import RecordedPass
from ..backward.run import Run, Step
from ..backward.steps import Contribution, contributions, seeds
from ..derivatives.chain import chain_model, has_chain
from ..derivatives.evaluation import fill_in
from ..derivatives.formulas import formulas
from ..forward.annotate import Annotated
from ..forward.values import Drawn
from ..graph.adjacency import predecessors
from ..graph.compiled import is_compiled
from ..graph.nodes import custom_function, leaf_tensor
from ..graph.saved import saved_models
from ..graph.signatures import signature
from ..graph.summary import Summarise, summarise
from ..graph.words import label
from ..program.compiled_inside import names_of_saved
from ..reasons import why
from ..reasons.loss_graph import graph_of
from ..reasons.reasons import reason_of
from ..wire import (
    ConsumerModel,
    ContributionModel,
    DetailsModel,
    FormulaModel,
    InputModel,
    NodeState,
    OutputModel,
    SavedModel,
    TensorSummary,
    ValueModel,
)
from .extra_details import (
    MOST_LISTED,
    extra_details,
    undrawn_inputs,
    watched_details,
)
from .function import function_model, operations_of
from .looking import Looking
from .value import value_model

if TYPE_CHECKING:
    import networkx as nx

_LARGEST_ADDED = 2**26  # bytes of a gradient whose shares are added up
_MOST_ADDED = 1_000  # shares that are added up once more, to see whether a hook changed the sum


def details(
    looking: Looking,
    node_id: int,
    recording: RecordedPass | None,
    drawn: Drawn,
) -> DetailsModel:
    """Describe one node.

    Args:
        looking: At the graph, and at the pass that is shown.
        node_id: Which node of the graph.
        recording: That pass, and where its cursor stands; None before the first.
        drawn: The values that the picture shows.

    Returns:
        The contents of the panel. ``grad`` is what the tensor's ``.grad`` holds now; the others
        are of the pass that is shown, at the cursor. Where one is None, ``grad_note`` has a
        sentence why. A part that cannot be worked out is empty, and ``failed`` says why.
    """
    captured, summarised = looking.captured, looking.summaries.of
    if node_id >= len(captured.nodes):
        return extra_details(captured, node_id, drawn.values.get(node_id), summarised)
    graph, node = captured.graph, captured.nodes[node_id]
    data = graph.nodes[node_id]
    leaf = leaf_tensor(node)
    tensor = leaf if leaf is not None else _intermediate(captured, node_id)
    run = recording.run if recording is not None else None
    state, step = _at_cursor(recording, node_id)
    inputs, input_count = inputs_of(graph, node_id)
    outputs, output_count = outputs_of(graph, node_id)
    consumers, consumer_count = consumers_of(graph, node_id)
    parts = looking.parts_of(node_id)
    unknown: tuple[ValueModel | None, str | None] = None, None
    value, note = parts.build(
        "value", lambda: value_model(captured, node_id, drawn, summarised), unknown
    )
    stored = parts.build("grad", lambda: _stored(tensor, summarised), None)
    grad_output, grad_input = None, None
    if run is not None and step is not None:
        grad_output = parts.build(
            "grad_output", lambda: _arrived(graph, run, step, summarised), None
        )
        grad_input = parts.build("grad_input", lambda: _passed_on(step, inputs, summarised), None)
    nothing: tuple[list[SavedModel], int] = ([], 0)
    saved, saved_count = parts.build(
        "saved", lambda: _saved(captured, node_id, summarised), nothing
    )
    operations, operation_count = operations_of(None if step is None else run, node_id, summarised)
    shares = None
    if run is not None:
        shares = parts.build(
            "contributions", lambda: _contributions(graph, run, node_id, summarised), None
        )
    undrawn = undrawn_inputs(captured, node_id)
    watched = watched_details(captured, node_id)
    return {
        "id": node_id,
        "kind": data["kind"],
        "op": data["op"],
        "name": data["name"],
        "about": parts.build("about", lambda: why.what_is(data, node, _first_arrived(step)), None)
        or str(parts.why("about")),
        "forward": parts.build("forward", lambda: _forward(node, data["op"]), None),
        "shape": None if data["shape"] is None else list(data["shape"]),
        "dtype": data["dtype"],
        "device": data["device"],
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
        "grad": stored,
        "grad_output": grad_output,
        "grad_input": grad_input,
        "grad_note": {
            "grad": parts.why("grad")
            or (why.no_grad(graph, node_id, tensor, run, state) if stored is None else None),
            "grad_output": parts.why("grad_output")
            or (None if grad_output else why.no_flow(run, state)),
            "grad_input": parts.why("grad_input")
            or (None if grad_input else why.nothing_passed_on(data, run, state)),
        },
        "state": state,
        "contributions": _by_now(shares, recording),
        "contribution_count": _arrivals_by_now(graph, recording, node_id),
        "formula": parts.build(
            "formula", lambda: _formulas(node, step, inputs), [], filled=step is not None
        ),
        "chain": parts.build(
            "chain",
            lambda: chain_model(looking.along, node_id) if has_chain(graph, node_id) else None,
            None,
        ),
        **watched,
        "constants": watched["constants"][:MOST_LISTED],
        "function": parts.build("function", lambda: function_model(node), None),
        "operations": operations,
        "operation_count": operation_count,
        "explained": parts.build(
            "explained",
            lambda: None if leaf is None else _explained(captured, leaf, data["name"]),
            None,
        ),
        "checkpoint": None,
        "ranks": [],
        "failed": list(parts.failed),
    }


def _stored(tensor: torch.Tensor | None, summarised: Summarise) -> TensorSummary | None:
    """What a tensor's ``.grad`` holds."""
    keeps = tensor is not None and (tensor.is_leaf or tensor.retains_grad)
    grad = tensor.grad if tensor is not None and keeps else None
    return None if grad is None else summarised(grad)


def _passed_on(
    step: Step, inputs: list[InputModel], summarised: Summarise
) -> list[TensorSummary | None] | None:
    if not inputs:
        return None
    return [_summary(step.grad_inputs[edge["input_nr"]], summarised) for edge in inputs]


def _explained(captured: Annotated, leaf: torch.Tensor, name: str | None) -> str:
    return reason_of(leaf, name, graph_of(captured)).sentence


def _at_cursor(recording: RecordedPass | None, node: int) -> tuple[NodeState, Step | None]:
    """How far a node is when the cursor stands where it does, and its step if that has run."""
    if recording is None:
        return "waiting", None
    state = recording.state(node)
    return state, recording.run.steps[node] if state in {"running", "done"} else None


def _arrived(
    graph: nx.MultiDiGraph, run: Run, step: Step, summarised: Summarise
) -> list[TensorSummary | None] | None:
    """What came into a node; where a hook has changed what had arrived, it says so."""
    found = [_summary(kept, summarised) for kept in step.grad_outputs[:MOST_LISTED]]
    if graph.in_degree(step.node) > _MOST_ADDED:
        return found
    sums = {
        share.output_nr: share.total
        for share in contributions(graph, run, step.node, _LARGEST_ADDED)
        if share.output_nr < len(found)
    }
    for nr, total in sums.items():
        summary, kept = found[nr], step.grad_outputs[nr]
        if summary is None or kept is None or total is None or kept.changed:
            continue
        if kept.tensor is not None and not _alike(total, kept.tensor):
            summary["note"] = (
                "A hook on this tensor changed the gradient that had arrived (its norm was "
                f"{float(summarise(total)['norm'] or 0):.6g}) before the node ran with it."
            )
    return found


def _alike(total: torch.Tensor, came: torch.Tensor) -> bool:
    if total is came:
        return True
    try:  # loosely: devices may add up in another order than we do
        return torch.allclose(total, came, rtol=1e-3, atol=0, equal_nan=True)
    except RuntimeError:  # sparse and other layouts
        return True


def _contributions(
    graph: nx.MultiDiGraph, run: Run, node: int, summarised: Summarise
) -> list[ContributionModel] | None:
    """What arrives at a node, in the order in which the engine adds it up."""
    return [
        {
            "step": share.step,
            "consumer": share.consumer,
            "label": (
                "where backward started"
                if share.consumer is None
                else label(graph.nodes[share.consumer])
            ),
            "input_nr": share.input_nr,
            "argument": _argument(graph, share, node),
            "output_nr": share.output_nr,
            "grad": None if share.grad is None else summarised(share.grad),
            "total": _total(share, summarised),
        }
        for share in islice(contributions(graph, run, node, _LARGEST_ADDED), MOST_LISTED)
    ]


def _total(share: Contribution, summarised: Summarise) -> TensorSummary | None:
    if share.total is None:
        return None
    # A sum was made to be looked at: nobody shall hold it.
    return summarised(share.total) if share.total is share.grad else summarise(share.total)


def _by_now(
    shares: list[ContributionModel] | None, recording: RecordedPass | None
) -> list[ContributionModel] | None:
    """Those shares that have arrived when the cursor stands where it does."""
    if shares is None or recording is None:
        return None
    return [share for share in shares if share["step"] <= recording.cursor]


def _arrivals_by_now(graph: nx.MultiDiGraph, recording: RecordedPass | None, node: int) -> int:
    """How many contributions there are, those included that are not listed."""
    if recording is None:
        return 0
    numbers, never = recording.run.numbers, recording.cursor + 1
    return sum(1 for _ in seeds(graph, recording.run, node)) + sum(
        len(edges)
        for source, edges in graph.pred[node].items()
        if numbers.get(source, never) <= recording.cursor
    )


def _argument(graph: nx.MultiDiGraph, share: Contribution, node: int) -> str | None:
    if share.consumer is None:
        return None
    argument: str | None = graph.edges[share.consumer, node, share.input_nr]["argument"]
    return argument


def _formulas(node: Node, step: Step | None, inputs: list[InputModel]) -> list[FormulaModel]:
    found = formulas(node, {edge["input_nr"] for edge in inputs})
    if step is None:
        return found
    return fill_in(found, node, [_tensor(kept) for kept in step.grad_outputs])


def _tensor(kept: Kept | None) -> torch.Tensor | None:
    return None if kept is None else kept.tensor


def _intermediate(captured: Annotated, node_id: int) -> torch.Tensor | None:
    """The first output of an op whose tensor we know and that is still alive."""
    for output in captured.graph.nodes[node_id]["outputs"]:
        known = captured.tensors.get((node_id, output["output_nr"]))
        tensor = known() if known is not None else None
        if tensor is not None:
            return tensor
    return None


def _first_arrived(step: Step | None) -> torch.Tensor | None:
    return _tensor(step.grad_outputs[0]) if step is not None and step.grad_outputs else None


def _summary(kept: Kept | None, summarised: Summarise) -> TensorSummary | None:
    return None if kept is None else kept.summarise(summarised)


def _saved(
    captured: Annotated, node_id: int, summarised: Summarise
) -> tuple[list[SavedModel], int]:
    """What a node saved; of compiled code by what the tensors are."""
    node = captured.nodes[node_id]
    listed, count = saved_models(node, MOST_LISTED, summarised)
    names = names_of_saved(captured, node_id) if is_compiled(node) else []
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


def outputs_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[OutputModel], int]:
    """The first tensors that a node gave, as the panel lists them, and how many it gave."""
    roots = {nr for root, nr in graph.graph["roots"] if root == node_id}
    outputs = graph.nodes[node_id]["outputs"]
    return [
        {
            "output_nr": output["output_nr"],
            "name": output["name"],
            "shape": None if output["shape"] is None else list(output["shape"]),
            "dtype": output["dtype"],
            "device": output["device"],
            "is_root": output["output_nr"] in roots,
        }
        for output in outputs[:MOST_LISTED]
    ], len(outputs)


def inputs_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[InputModel], int]:
    """The first that a node takes, by argument, and how many it takes."""
    edges = sorted(
        ((target, edge) for _, target, edge in graph.out_edges(node_id, data=True)),
        key=lambda each: each[1]["input_nr"],
    )
    found: list[InputModel] = []
    for target, edge in edges[:MOST_LISTED]:
        outputs = graph.nodes[target]["outputs"]
        shape = outputs[edge["output_nr"]]["shape"] if edge["output_nr"] < len(outputs) else None
        found.append(
            {
                "input_nr": edge["input_nr"],
                "argument": edge["argument"],
                "node": target,
                "output_nr": edge["output_nr"],
                "label": label(graph.nodes[target]),
                "shape": None if shape is None else list(shape),
            }
        )
    return found, len(edges)


def consumers_of(graph: nx.MultiDiGraph, node_id: int) -> tuple[list[ConsumerModel], int]:
    """The first that take the tensors of a node, and how many do."""
    found = sorted(
        (source, edge["input_nr"], key)
        for source, edges in predecessors(graph)[node_id].items()
        for key, edge in edges.items()
    )
    listed = [(source, graph.edges[source, node_id, key]) for source, _, key in found[:MOST_LISTED]]
    return [
        {
            "node": source,
            "input_nr": edge["input_nr"],
            "argument": edge["argument"],
            "output_nr": edge["output_nr"],
            "label": label(graph.nodes[source]),
        }
        for source, edge in listed
    ], len(found)
