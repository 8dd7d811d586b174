"""The panel's details of one node, as plain JSON values."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.autograd.graph import Node

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun, Step
from ..derivatives.chain import Along, chain_model, has_chain
from ..derivatives.evaluation import fill_in, take_many
from ..explain import describe_node as why
from ..explain.causes import reason_of
from ..explain.constants_and_cuts import about_constant, about_cut, about_outside, no_flow
from ..explain.loss_graph import graph_of
from ..graph.guarded import Guarded
from ..graph.labels import label
from ..lazily import nx
from ..plugins import Hook
from ..schema.details import (
    ConstantModel,
    CutModel,
    DetailsModel,
    FormulaModel,
    FunctionModel,
    InputModel,
    OperationModel,
    SavedModel,
    SourceModel,
    TensorSummary,
    ValueModel,
)
from ..schema.values import Values
from ..torch_api.nodes import custom_function, is_compiled, is_of_torch, leaf_tensor
from ..torch_api.saved_tensors import saved_models
from ..torch_api.signatures import signature
from ..torch_api.summary import Summaries, Summarise
from ..tracing.annotate import Annotated
from ..tracing.extra_nodes import Extra
from ..tracing.source_line import NO_FILE, SourceLine, shown_file
from ..tracing.values import Drawn
from .blank import blank_details
from .neighbours import (
    MOST_LISTED,
    arrived,
    consumers_of,
    contribution_models,
    count_by_now,
    inputs_of,
    outputs_of,
    passed_on,
)
from .value import value_model, value_of_extra

_MOST_LINES = 60

_T = TypeVar("_T")


@dataclass(frozen=True)
class WrittenBackward:
    """The source code of a custom backward."""

    method: str  # "backward", or "vjp", which torch takes as well
    code: str  # its source, at most the first 60 lines
    file: str  # its file
    line: int  # its first line


def written_backward(custom: type[torch.autograd.Function]) -> WrittenBackward | None:
    """Return the source of a Function's backward, without calling it; None if Python lacks it."""
    for method in ("backward", "vjp"):
        written = inspect.getattr_static(custom, method, None)
        written = inspect.unwrap(getattr(written, "__func__", written))
        if is_of_torch(written):
            continue  # the one that only says that it must be overridden
        try:
            lines, first = inspect.getsourcelines(written)
            file = inspect.getsourcefile(written) or inspect.getfile(written)
        except (OSError, TypeError, ValueError):
            continue
        if file == NO_FILE:
            continue
        listed = textwrap.dedent("".join(lines)).rstrip().split("\n")
        if len(listed) > _MOST_LINES:
            rest = len(listed) - _MOST_LINES + 1
            listed = [*listed[: _MOST_LINES - 1], f"    # ... {rest} more lines"]
        return WrittenBackward(method, "\n".join(listed), file, first)
    return None


def function_model(node: Node) -> FunctionModel | None:
    """Find the source of a custom backward; None for torch's own nodes."""
    custom = custom_function(node)
    if custom is None or is_of_torch(custom):
        return None
    found = written_backward(custom)
    if found is None:
        return {
            "method": f"{custom.__name__}.backward",
            "place": None,
            "code": "",
            "note": f"The source of {custom.__name__}.backward was not found: it does not come "
            "from a file or a cell.",
        }
    return {
        "method": f"{custom.__name__}.{found.method}",
        "place": {
            "file": shown_file(found.file),
            "line": found.line,
            "text": "",
            "function": f"{custom.__name__}.{found.method}",
        },
        "code": found.code,
        "note": None,
    }


def operations_of(
    run: RecordedRun | None, node: int, summarised: Summarise
) -> tuple[list[OperationModel], int]:
    """List the first recorded operations of a custom backward, and count all of them."""
    found = None if run is None else run.operations.get(node)
    if found is None:
        return [], 0
    return [
        {
            "called": each.name,
            "behind": each.inner_node,
            "gave": each.outputs[0].kept.summarise(summarised)
            if each.outputs and each.outputs[0]
            else None,
        }
        for each in found.listed[:MOST_LISTED]
    ], found.count


SAVED_NAMES: Hook[Callable[[Annotated, int], Sequence[str]]] = Hook()
"""Functions that name the tensors a node saved; they return an empty list for other nodes."""


class DetailParts(Guarded):
    """The parts of one node's details that are the same at every cursor, each built once."""

    def __init__(self) -> None:
        super().__init__()
        self._built: dict[tuple[str, bool], Any] = {}
        # What `_fixed` returned; None before.
        self.fixed: tuple[DetailsModel, torch.Tensor | None] | None = None

    def build(
        self, part: str, made_by: Callable[[], _T], instead: _T, *, filled: bool = False
    ) -> _T:
        """Return one part, built on first use; ``filled`` if it has the numbers of a pass."""
        if (part, filled) not in self._built:
            self._built[part, filled] = super().build(part, made_by, instead)
        found: _T = self._built[part, filled]
        return found


class DetailsReader:
    """Caches what the details of several nodes share, or of one node at several cursors.

    It holds the tensors it has read, so use it for one call and do not keep it.
    """

    def __init__(self, captured: Annotated, run: RecordedRun | None) -> None:
        self.captured = captured  # the graph, and the autograd nodes and tensors behind it
        self.summaries = Summaries()  # the cached summaries of tensors
        self.along = Along(captured, run)  # the derivatives along edges
        self.loss = graph_of(captured, run)  # what is known of each ``.grad``
        self._parts: tuple[int, DetailParts] = -1, DetailParts()

    def parts_of(self, node: int) -> DetailParts:
        """Return the parts of a node's details; the cache holds the last node only."""
        if self._parts[0] != node:
            self._parts = node, DetailParts()
        return self._parts[1]


def details(
    reader: DetailsReader,
    node_id: int,
    recording: RecordedPass | None,
    drawn: Drawn,
    *,
    without_grad: bool = False,
) -> DetailsModel:
    """Describe one node.

    Returns the contents of the panel. ``grad`` is the tensor's current ``.grad``; the other
    gradients come from the shown pass, at the cursor. If one is None, ``grad_note`` says why. A
    part that raises is empty, and ``failed`` says why. ``recording``: the shown pass and its
    cursor; None before the first pass.
    """
    captured, summarised = reader.captured, reader.summaries.of
    if node_id >= len(captured.nodes):
        return _extra_details(captured, node_id, drawn.values.get(node_id), summarised)
    graph, node = captured.graph, captured.nodes[node_id]
    data = graph.nodes[node_id]
    run = None if recording is None else recording.run
    state = "waiting" if recording is None else recording.state(node_id)
    step = run.steps[node_id] if run is not None and state in {"running", "done"} else None
    parts = reader.parts_of(node_id)
    if parts.fixed is None:
        parts.fixed = _fixed(reader, parts, node_id, drawn)
    fields, tensor = parts.fixed
    inputs = fields["inputs"]
    stored = grad_output = grad_input = contributions = None
    if not without_grad:
        stored = parts.build("grad", lambda: _stored(tensor, summarised), None)
    if run is not None and step is not None:
        grad_output = parts.build(
            "grad_output", lambda: arrived(graph, run, step, summarised), None
        )
        grad_input = parts.build("grad_input", lambda: passed_on(step, inputs, summarised), None)
    if run is not None:
        contributions = parts.build(
            "contributions", lambda: contribution_models(graph, run, node_id, summarised), None
        )
    cursor = 0 if recording is None else recording.cursor
    operations, operation_count = operations_of(None if step is None else run, node_id, summarised)
    first = _tensor(step.grad_outputs[0]) if step is not None and step.grad_outputs else None
    about = parts.build("about", lambda: why.what_is(data, node, first), None)
    grad_note = None
    if stored is None and not without_grad:
        grad_note = why.no_grad(graph, node_id, tensor, run, state)
    return {
        **fields,
        "about": about or str(parts.why("about")),
        "grad": stored,
        "grad_output": grad_output,
        "grad_input": grad_input,
        "grad_note": {
            "grad": parts.why("grad") or grad_note,
            "grad_output": parts.why("grad_output")
            or (None if grad_output else why.no_flow(run, state)),
            "grad_input": parts.why("grad_input")
            or (None if grad_input else why.nothing_passed_on(data, run, state)),
        },
        "state": state,
        "contributions": contributions and [c for c in contributions if c["step"] <= cursor],
        "contribution_count": count_by_now(graph, recording, node_id),
        "formula": parts.build(
            "formula", lambda: _formulas(reader, node_id, step, inputs), [], filled=step is not None
        ),
        "operations": operations,
        "operation_count": operation_count,
        "failed": list(parts.failed),
    }


def _fixed(
    reader: DetailsReader, parts: DetailParts, node_id: int, drawn: Drawn
) -> tuple[DetailsModel, torch.Tensor | None]:
    """The details that are the same at every cursor, and the leaf or first known output."""
    captured, summarised = reader.captured, reader.summaries.of
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
    nothing: tuple[list[SavedModel], int] = [], 0
    saved, saved_count = parts.build(
        "saved", lambda: _saved(captured, node_id, summarised), nothing
    )
    constants, undrawn = _constants(captured, node_id)
    seen = captured.annotations.get(node_id)
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
        "input_count": input_count + len(undrawn) + len(constants),
        "no_grad_inputs": undrawn[:MOST_LISTED],
        "consumers": consumers,
        "consumer_count": consumer_count,
        "value": value,
        "value_note": parts.why("value") or note,
        "chain": parts.build(
            "chain",
            lambda: chain_model(reader.along, node_id) if has_chain(graph, node_id) else None,
            None,
        ),
        "source": line_model(seen.source) if seen is not None else None,
        "module": None if seen is None or seen.module is None else seen.module or seen.module_root,
        "call": seen.forward if seen is not None else None,
        "inplace": seen is not None and seen.inplace,
        "inferred": False,
        "constants": constants[:MOST_LISTED],
        "function": parts.build("function", lambda: function_model(node), None),
        "explained": parts.build(
            "explained",
            lambda: leaf if leaf is None else reason_of(leaf, data["name"], reader.loss).sentence,
            None,
        ),
    }
    known = (captured.tensors.get((node_id, each["output_nr"])) for each in data["outputs"])
    alive = (reference() for reference in known if reference is not None)
    tensor = leaf if leaf is not None else next((each for each in alive if each is not None), None)
    return fields, tensor


def _stored(tensor: torch.Tensor | None, summarised: Summarise) -> TensorSummary | None:
    keeps = tensor is not None and (tensor.is_leaf or tensor.retains_grad)
    grad = tensor.grad if tensor is not None and keeps else None
    return None if grad is None else summarised(grad)


def _formulas(
    reader: DetailsReader, node_id: int, step: Step | None, inputs: list[InputModel]
) -> list[FormulaModel]:
    found = reader.along.formulas(node_id, {edge["arg_nr"] for edge in inputs})
    incoming = [] if step is None else [_tensor(kept) for kept in step.grad_outputs]
    if not incoming or take_many(found, incoming):
        return found
    return fill_in([{**each} for each in found], reader.captured.nodes[node_id], incoming)


def _tensor(kept: KeptGradient | None) -> torch.Tensor | None:
    return None if kept is None else kept.tensor


def _saved(
    captured: Annotated, node_id: int, summarised: Summarise
) -> tuple[list[SavedModel], int]:
    listed, count = saved_models(captured.nodes[node_id], MOST_LISTED, summarised)
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


def _constants(captured: Annotated, node: int) -> tuple[list[ConstantModel], list[Any]]:
    """A node's drawn constants, and its inputs without grad that are not drawn."""
    nodes = captured.drawn.nodes
    drawn = [
        (target, edge)
        for _, target, edge in captured.drawn.out_edges(node, data=True)
        if edge.get("kind") == "constant"
    ]
    found: list[ConstantModel] = [
        {
            "node": target,
            "argument": edge["argument"],
            "arg_nr": edge["arg_nr"],
            "label": label(nodes[target]),
            "shape": list(nodes[target]["shape"]),
        }
        for target, edge in drawn
    ]
    places = {edge["arg_nr"] for _, edge in drawn}
    inputs = captured.graph.nodes[node]["no_grad_inputs"]
    return found, [each for each in inputs if each["arg_nr"] not in places]


def _extra_details(
    captured: Annotated, node: int, drawn: Values | None, summarised: Summarise
) -> DetailsModel:
    """Describe a constant, a cut or an outside tensor; ``drawn`` has its numbers in the picture."""
    graph, extra = captured.drawn, captured.extra(node)
    constant = extra.constant
    origin = constant.origin if constant is not None else None
    return {
        **blank_details(graph, node, _about_extra(graph, node, extra), no_flow(graph.nodes[node])),
        "consumers": consumers_of(graph, node)[0],
        "value": value_of_extra(extra, graph.nodes[node], drawn, summarised),
        "state": "not reached",
        "source": line_model(origin.where) if origin is not None else None,
        "inferred": extra.inferred,
        "cuts": _cuts(graph, extra),
    }


def _about_extra(graph: nx.MultiDiGraph, node: int, extra: Extra) -> str:
    data = graph.nodes[node]
    if extra.kind == "outside":
        return about_outside(data)
    if extra.kind == "cut":
        assert extra.constant is not None
        sources = [_in_sentence(graph.nodes[source]) for source in extra.sources]
        return about_cut(data, extra.constant.cuts, sources)
    return about_constant(data, extra.constant)


def _in_sentence(data: dict[str, Any]) -> str:
    """Return the label of a cut's source for a sentence: "x", "max(x)", "the result of +"."""
    text = label(data)
    is_words = data["kind"] == "outside" and data["name"] is None and not text.endswith(")")
    return f"the {text}" if is_words else text


def _cuts(graph: nx.MultiDiGraph, extra: Extra) -> list[CutModel]:
    cuts = extra.constant.cuts if extra.constant is not None else ()
    return [
        {
            "how": cut.how,
            "node": source,
            "label": label(graph.nodes[source]),
            "line": line_model(cut.where),
            "region": line_model(cut.region),
        }
        for cut, source in zip(cuts, extra.sources, strict=True)
    ]


def line_model(where: SourceLine | None) -> SourceModel | None:
    """Convert a line of the user's program for the panel."""
    if where is None:
        return None
    return {
        "file": shown_file(where.file),
        "line": where.line,
        "text": where.text,
        "function": where.function,
    }
