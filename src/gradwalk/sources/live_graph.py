"""A graph of tensors that are alive, followed through its backward passes."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..backward.kept_gradients import DEFAULT_BUDGET, KeptGradient
from ..backward.leaf_grads import LeafGrads, Moment
from ..backward.recorded_pass import RecordedPass, announce
from ..backward.recorded_run import RecordedRun
from ..backward.run_backward import run_backward
from ..checks.context import CheckContext
from ..checks.finding import Finding
from ..checks.memory import memory_model, saved_memory
from ..checks.run_checks import Limits, run_checks
from ..explain import describe_node as why
from ..explain.passes import why_freed
from ..graph.adjacency import predecessors, successors
from ..graph.arguments import find_node
from ..graph.guarded import could_not
from ..graph.names import Names
from ..lazily import nx
from ..panel.blank import blank_details
from ..panel.details import DetailsReader, details, line_model
from ..panel.neighbours import MOST_LISTED, consumer_model, input_model, outputs_of
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import ConsumerModel, DetailsModel, ValueModel
from ..schema.findings import MemoryModel
from ..schema.graph import GraphModel, OverlayModel
from ..schema.ranks import RankModel
from ..torch_api.distributed import is_distributed
from ..torch_api.modes import grad_mode_kept, unseen
from ..torch_api.nodes import leaf_tensor
from ..torch_api.summary import Summarise
from ..tracing.annotate import Annotated
from .distributed import rank_model
from .graph_model import as_kept, state_model
from .graph_source import DiagnosisRequest
from .inner_graph import tied
from .live_drawing import LiveDrawing
from .live_passes import LivePasses
from .open_nodes import InnerNode, Opening
from .saved_graph import replayed


def inside_details(
    opening: Opening,
    node: int,
    place: InnerNode,
    recorded: RecordedPass | None,
    summarised: Summarise,
) -> DetailsModel:
    """Describe a call or tensor inside another node, at the cursor of a pass if there is one."""
    graph = opening.captured.drawn
    data = graph.nodes[node]
    outer = place.inside.node
    is_call = data["kind"] == "call"
    about = place.inner.about
    if is_call:
        about = f"A call of {data['op']} inside of node {outer}. {about}"
    value, note = _value(opening, place, recorded, summarised, is_call=is_call)
    outputs, output_count = outputs_of(graph, node)
    inputs = [input_model(graph, *each) for each in _operands(graph, node)]
    users = _users(graph, node)
    namespace = data["namespace"]
    return {
        **blank_details(graph, node, about, note or "Nothing flows here."),
        "forward": f"{data['fx_name']} = {data['called']}" if data.get("called") else None,
        "requires_grad": None,
        "is_leaf": None,
        "outputs": outputs,
        "output_count": output_count,
        "inputs": inputs[:MOST_LISTED],
        "input_count": len(inputs),
        "consumers": users[:MOST_LISTED],
        "consumer_count": len(users),
        "value": value,
        "value_note": note if value is None else None,
        "state": "waiting" if recorded is None else recorded.state(outer),
        "source": line_model(place.inner.line),
        "module": None if not namespace else namespace.replace("/", "."),
    }


def _value(
    opening: Opening,
    place: InnerNode,
    recorded: RecordedPass | None,
    summarised: Summarise,
    *,
    is_call: bool,
) -> tuple[ValueModel | None, str | None]:
    if recorded is None:
        return None, "No backward pass through this graph has been seen yet." if is_call else None
    if recorded.state(place.inside.node) not in {"running", "done"}:
        return None, "At this step of backward this node has not run." if is_call else None
    numbers = opening.numbers(place.inside.node, recorded)
    if isinstance(numbers, str):
        return None, numbers if is_call else None
    given = numbers.given.get(place.inner, [])[: place.inner.own]
    parts = [each for each in given if each is not None]
    if len(parts) != 1 and is_call:
        return None, f"This call gave {len(parts)} tensors: they are at the calls that take them."
    if len(parts) != 1:
        return None, None
    kept: KeptGradient = parts[0]
    return {**kept.summarise(summarised), "origin": numbers.note}, None


def _operands(graph: nx.MultiDiGraph, node: int) -> list[tuple[int, str | None, int, int]]:
    """(operand, argument, what gives it, which of its tensors) of a call, in order."""
    found = [
        (edge["output_nr"], edge["argument"], source, edge["arg_nr"])
        for source, edge in _edges(predecessors(graph)[node], "gradient")
    ]
    if graph.nodes[node]["kind"] == "call":
        found += [
            (edge["arg_nr"], edge["argument"], target, edge["output_nr"])
            for target, edge in _edges(successors(graph)[node], "constant")
        ]
    return sorted(found, key=operator.itemgetter(0))


def _users(graph: nx.MultiDiGraph, node: int) -> list[ConsumerModel]:
    """The calls that take a node's result, and the inputs whose gradient it is."""
    inside = graph.nodes[node]["inside"]
    calls = [
        (target, edge["output_nr"], edge["argument"])
        for target, edge in _edges(successors(graph)[node], "gradient")
    ]
    calls += [
        (source, edge["arg_nr"], edge["argument"])
        for source, edge in _edges(predecessors(graph)[node], "constant")
    ]
    of_node = _edges(successors(graph)[inside], "gradient")
    calls += [(target, 0, None) for target, edge in of_node if edge.get("via") == node]
    return [consumer_model(graph, *each) for each in calls]


def _edges(
    beside: Mapping[int, Mapping[int, dict[str, Any]]], kind: str
) -> Iterator[tuple[int, Any]]:
    for other, between in beside.items():
        for edge in between.values():
            if edge["kind"] == kind:
                yield other, edge


class LiveGraph:
    """A graph of tensors that are alive; see `gradwalk.sources.graph_source.GraphSource`.

    It consists of its passes, which hooks record, and of its drawing, which reads the passes.
    Every change of either goes through a method here.
    """

    runs_backward = True
    direction = "auto"
    overlays: tuple[OverlayModel, ...] = ()
    loaded_ranks: Sequence[int] = ()
    on_rank = None

    def __init__(self, captured: Annotated, names: Names, max_bytes: int = DEFAULT_BUDGET) -> None:
        """Take a graph without hooks; `follow` adds them, and keeps ``max_bytes`` of each pass."""
        self._passes = LivePasses(captured, max_bytes)
        self._drawing = LiveDrawing(captured, names, self._passes, max_bytes)

    def clone(self) -> LiveGraph:
        """The same graph, followed by nobody yet, without the passes that were seen."""
        other = copy.copy(self)
        other._passes = self._passes.clone()
        other._drawing = self._drawing.clone(other._passes)
        other.recording = None
        return other

    @property
    def _opening(self) -> Opening:
        return self._drawing.opening

    @property
    def captured(self) -> Annotated:
        """The graph, with what is inside of open nodes."""
        return self._opening.captured

    @property
    def autograd(self) -> Annotated | None:
        return self.captured

    @property
    def graph(self) -> nx.MultiDiGraph:
        return self.captured.graph

    @property
    def drawn(self) -> nx.MultiDiGraph:
        return self.captured.drawn

    @property
    def size(self) -> int:
        return self.captured.first_extra + len(self.captured.extras)

    @property
    def is_watched(self) -> bool:
        return bool(self.captured.annotations)

    @property
    def model(self) -> GraphModel:
        return self._drawing.model

    @property
    def recording(self) -> RecordedPass | None:
        return self._passes.shown

    @recording.setter
    def recording(self, recording: RecordedPass | None) -> None:
        self._passes.shown = recording
        self._drawing.show(None if recording is None else recording.run)

    @property
    def last_run(self) -> RecordedRun | None:
        """The latest pass that was seen, also one that is not shown yet."""
        return self._passes.last_run

    @property
    def openable(self) -> Sequence[int]:
        return self._opening.openable

    def all_open(self) -> Opening:
        return self._opening.with_all_open()

    def expand(self, node: int) -> None:
        self._drawing.expand(node)

    def collapse(self, node: int) -> None:
        self._drawing.collapse(node)

    @property
    def recorded(self) -> object | None:
        return self.recording

    @property
    def steps(self) -> list[StepModel]:
        return [] if self.recording is None else self.recording.models

    @property
    def run(self) -> RunModel | None:
        return self._passes.run(self._opening)

    @property
    def cursor(self) -> int:
        return 0 if self.recording is None else self.recording.cursor

    @property
    def grads(self) -> LeafGrads | None:
        return self._passes.grads

    @property
    def fault(self) -> str | None:
        return self._passes.fault

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        self._passes.follow(changed, begun)
        announce(self)

    def read_now(self) -> None:
        self._drawing.read_now()

    def poll(self) -> bool:
        is_news = self._passes.poll()
        self.recording = self._passes.shown
        return is_news

    def close(self) -> None:
        self._passes.close()
        self._opening.forget()

    def backward(self, **options: Any) -> None:
        if self._passes.freed:
            raise RuntimeError(why_freed(self.captured, self._passes.freed))
        run_backward(self.captured, self._passes.observer, operations=self.is_watched, **options)

    def seek(self, cursor: int) -> None:
        if self.recording is not None and self.recording.cursor != cursor:
            self.recording.seek(cursor)

    def find(self, node: int | str) -> int:
        found = find_node(self.graph, node)
        return 0 if self.recording is None else self.recording.find(found)

    def paused(self) -> AbstractContextManager[None]:
        return self._passes.observer.paused()

    def state(self) -> StateModel:
        passes, inside = self._passes, self._opening.node_of_edges()
        return state_model(passes.observer, passes.freed, self.graph, inside, passes.held())

    def transport(self) -> TransportModel:
        shown, freed = self.recording, self._passes.freed
        return {
            "owned": shown is not None and shown.owned,
            "note": None if shown is None else shown.note,
            "blocked": why_freed(self.captured, freed) if freed else self._missing,
        }

    @functools.cached_property
    def _missing(self) -> str | None:
        """Why backward cannot start by itself, whatever was freed."""
        return why.blocked(self.captured)

    def reopened(self) -> TransportModel:
        shown = self.recording
        return replayed(self.graph, shown is not None, None if shown is None else shown.note)

    def memory(self) -> MemoryModel:
        return memory_model(saved_memory(self.captured))

    @grad_mode_kept
    def findings(self, request: DiagnosisRequest | None = None) -> list[Finding]:
        request = request or DiagnosisRequest(Names(), Limits())
        context = CheckContext(
            self.captured,
            self.recording,
            self._drawing.namespaces,
            request.called,
            request.is_explicit,
            request.optimizers,
            self._drawing.shared.parallel,
        )
        return run_checks(context, request.limits)

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        return self.details_reader()(node, cursor)

    def details_reader(self) -> Callable[[int, int | None], DetailsModel]:
        shown, shared = self.recording, self._drawing.shared
        run = None if shown is None else shown.run
        reader, bucket_of = DetailsReader(self.captured, run), shared.buckets()

        @grad_mode_kept
        def read(node: int, cursor: int | None = None) -> DetailsModel:
            # A click can be handled on another thread, in whatever grad mode that thread is in.
            with unseen(), torch.no_grad():
                try:
                    found = _details_at(reader, shown, self._drawing, node, cursor)
                    shared.put(found, node, run, reader.summaries.of, bucket_of)
                except Exception as error:  # the picture and the other nodes still work
                    sentence = could_not("details", error)
                    found = blank_details(self.drawn, node, sentence, sentence)
            self._drawing.add_to(found, node)
            return found

        return read

    def changes(self, node: int) -> list[int]:
        return _cursors_of_changes(self.recording, self._opening, node)

    def rank(self) -> RankModel | None:
        if not is_distributed():
            return None
        read, end = self.details_reader(), len(self.steps)
        run = None if self.recording is None else self.recording.run
        with unseen(), torch.no_grad():
            return rank_model(
                self.captured, lambda node: read(node, end), self._drawing.shared, self.run, run
            )

    def leaf(self, node: int) -> torch.Tensor | None:
        if node < len(self.captured.nodes):
            return leaf_tensor(self.captured.nodes[node])
        if node in self._opening.places:
            return None
        tensor = self.captured.extra(node).tensor
        return tensor if tensor is not None and tensor.is_leaf else None

    def accumulated(self) -> list[torch.Tensor]:
        leaves = map(leaf_tensor, self.captured.nodes)
        others = (reference() for reference in self.captured.tensors.values())
        return [
            *(tensor for tensor in leaves if tensor is not None),
            *(tensor for tensor in others if tensor is not None and tensor.retains_grad),
        ]

    def to_networkx(self) -> nx.MultiDiGraph:
        graph = self.captured.watched()
        return tied(graph) if self._opening.inside else graph


_Stored = tuple[torch.Tensor, Moment]  # a tensor, and its ``.grad`` at one moment


def _details_at(
    reader: DetailsReader,
    shown: RecordedPass | None,
    drawing: LiveDrawing,
    node: int,
    cursor: int | None,
) -> DetailsModel:
    """The contents of the panel after ``cursor`` steps; None for the current cursor."""
    opening, stored = drawing.opening, None
    if shown is not None and cursor is not None:
        shown = shown.at_cursor(cursor)
        stored = _stored_at(shown, node) if shown.owned else None
    place = opening.places.get(node)
    if place is not None:
        return inside_details(opening, node, place, shown, reader.summaries.of)
    found = details(reader, node, shown, drawing.values, without_grad=stored is not None)
    found["about"] += opening.about(node)
    if shown is not None and stored is not None:
        _put_grad(reader, node, shown, found, stored)
    return found


def _stored_at(shown: RecordedPass, node: int) -> _Stored | None:
    """A tensor of a node, and its ``.grad`` at the cursor of a pass that moves it."""
    assert shown.run.grads is not None
    for timeline in shown.run.grads.of(node):
        tensor = timeline.tensor()
        if tensor is not None:
            return tensor, timeline.moments[timeline.at(shown.cursor)]
    return None


def _put_grad(
    reader: DetailsReader, node: int, shown: RecordedPass, found: DetailsModel, stored: _Stored
) -> None:
    tensor, moment = stored
    missing = moment.grad is None
    if missing != (tensor.grad is None):
        found["explained"] = None  # it explains the current `.grad`
    found["grad"] = None if missing else as_kept(moment).summarise(reader.summaries.of)
    state = shown.state(node)
    found["grad_note"]["grad"] = (
        why.no_grad(reader.captured.graph, node, tensor, shown.run, state) if missing else None
    )


def _cursors_of_changes(recording: RecordedPass | None, opening: Opening, node: int) -> list[int]:
    """List the cursors at which a node runs, gets a gradient or changes its ``.grad``."""
    place = opening.places.get(node)
    node = node if place is None else place.inside.node
    if recording is None or node >= len(opening.captured.nodes):
        return [0]
    run = recording.run
    found = {0}
    own = run.numbers.get(node)
    if own is not None:
        found |= {own, own + 1}
    takers = opening.captured.predecessors[node]
    found |= {run.numbers[source] for source in takers if source in run.numbers}
    for timeline in run.grads.of(node) if run.grads is not None else ():
        found |= {moment.step for moment in timeline.moments}
    return sorted(cursor for cursor in found if cursor <= run.total)
