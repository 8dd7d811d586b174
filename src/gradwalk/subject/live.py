"""A graph of tensors that are alive, followed through its backward passes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..backward.grads import Grads
from ..backward.kept import DEFAULT_BUDGET
from ..backward.observe import Observer
from ..backward.recorded_pass import RecordedPass, find_node
from ..backward.run import Run
from ..backward.run_backward import run_backward
from ..findings.evidence import Evidence
from ..findings.finding import Finding
from ..findings.judge import Limits, judge
from ..findings.memory import memory_model, saved_memory
from ..forward.annotate import Annotated
from ..forward.double_backward import pairs
from ..forward.values import Drawn, drawn_values
from ..graph.adjacency import predecessors
from ..graph.guarded import could_not
from ..graph.modes import grad_mode_kept, unseen
from ..graph.names import Names
from ..graph.nodes import leaf_tensor
from ..graph.saved import is_freed
from ..modules.module_classes import classes_of_modules
from ..modules.namespaces import inferred_namespaces
from ..modules.outside import boxes_outside
from ..program.inside import tied
from ..reasons import why
from ..wire import (
    DetailsModel,
    GraphModel,
    MemoryModel,
    RunModel,
    StateModel,
    StepModel,
    TransportModel,
)
from ..wire.ranks import RankModel
from .blank import blank_details
from .checkpointed import checkpointed
from .details import details
from .inside_details import inside_details
from .looking import Looking
from .model import as_kept, graph_model, modules_model, run_model, state_model
from .opened import replayed
from .opening import Opening, boxes_inside
from .rank import is_one_of_several, rank_model
from .shared_leaves import BucketOf, SharedLeaves
from .stored import Since, Stored
from .transformed import about_transforms, within_transforms

if TYPE_CHECKING:
    import networkx as nx


class Live:
    """A graph of tensors that are alive; see `gradwalk.subject.subject.Subject`.

    Attributes:
        captured: The graph.
        freed: Ids of the nodes whose saved tensors are gone.
    """

    runs_backward = True
    direction = "auto"
    loaded_ranks: Sequence[int] = ()
    on_rank = None

    def __init__(self, captured: Annotated, names: Names, max_bytes: int = DEFAULT_BUDGET) -> None:
        """Look at a graph; `follow` watches it.

        Args:
            captured: The graph.
            names: What the user calls tensors and modules.
            max_bytes: Of gradients to keep of each pass.
        """
        self.captured = captured
        self._opening = Opening(captured, max_bytes)
        self.freed = {i for i, node in enumerate(captured.nodes) if is_freed(node)}
        self._recording: RecordedPass | None = None
        # Not the names themselves: they know of other graphs, which would then live as long.
        self._inferred = inferred_namespaces(captured, names)
        self._classes = classes_of_modules(captured, names, self._inferred)
        self._boxes = boxes_outside(captured, self._inferred)
        self._checkpointed = checkpointed(captured, names, self._inferred, self._boxes)
        self._derived = why.about_derivatives(captured)
        self._tied = {
            node: tied for node, leaf in captured.leaves() if (tied := names.tied_to(leaf))
        }
        self._shared = SharedLeaves(captured, names)
        self._max_bytes = max_bytes
        self._observer: Observer | None = None
        self._seen: Run | None = None
        self._run: tuple[object, RunModel | None] = None, None
        self._told_compiled = False
        self._stored = Stored(captured)
        self._since = Since()

    @property
    def autograd(self) -> Annotated | None:
        """The graph itself."""
        return self.captured

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The autograd nodes alone."""
        return self.captured.graph

    @property
    def drawn(self) -> nx.MultiDiGraph:
        """With constants and cuts."""
        return self.captured.drawn

    @property
    def is_watched(self) -> bool:
        """Whether `watch` saw any of the nodes made."""
        return bool(self.captured.annotations)

    @functools.cached_property
    def namespaces(self) -> Mapping[int, str]:
        """The modules of the nodes, watched or inferred."""
        watched = {node: space for node, space in self.drawn.nodes(data="namespace") if space}
        return self._opening.moved(self._inferred) or watched

    @functools.cached_property
    def model(self) -> GraphModel:
        """What is drawn."""
        regions, moved = self._checkpointed, self._opening.moved
        boxes, classes = boxes_inside(self._opening)
        model = graph_model(
            self.drawn,
            moved(self._inferred),
            modules_model(regions.with_classes({**self._classes, **classes})),
            {**self._drawn_values.values, **self._opening.values()},
            self.captured.nodes,
            boxes={**moved(self._boxes), **moved(regions.spaces), **boxes},
            changed=self._drawn_values.changed,
            regions=moved(regions.numbers),
            checkpoints=regions.models,
            derivatives=pairs(self.captured.derivatives),
        )
        return within_transforms(model, self.captured.transforms)

    @property
    def recording(self) -> RecordedPass | None:
        """The pass that is shown; None before any."""
        return self._recording

    @recording.setter
    def recording(self, recording: RecordedPass | None) -> None:
        self._recording = recording
        if self._opening.show(None if recording is None else recording.run):
            self._redraw()

    @property
    def openable(self) -> Sequence[int]:
        """The compiled nodes, and those whose operations the pass that is shown has noted."""
        return self._opening.openable

    def expand(self, node: int) -> None:
        """Show what is inside of a node.

        Raises:
            ValueError: It has nothing inside that can be shown.
        """
        _ = self._values  # read now, as the graph was drawn: it stays the same graph
        self._opening.expand(node)
        self._redraw()

    def collapse(self, node: int) -> None:
        """Hide it again.

        Raises:
            ValueError: It has nothing inside.
        """
        self._opening.collapse(node)
        self._redraw()

    def _redraw(self) -> None:
        self.captured = self._opening.captured
        self._run = None, None
        for known in ("model", "namespaces", "_drawn_values"):
            self.__dict__.pop(known, None)

    @functools.cached_property
    def _drawn_values(self) -> Drawn:
        """The small values by the ids of what is drawn now."""
        known, moved = self._values, self._opening.moved
        return replace(known, values=moved(known.values), changed=moved(known.changed))

    @functools.cached_property
    def _values(self) -> Drawn:
        """The small values of the nodes, read when the graph is drawn."""
        with unseen(), torch.no_grad():
            try:
                return drawn_values(self.captured, bool(self.freed))
            except Exception:  # the picture is worth having without numbers
                return Drawn({}, {}, {}, had_run=False)

    @property
    def recorded(self) -> object | None:
        """The recording."""
        return self.recording

    @property
    def steps(self) -> list[StepModel]:
        """Those of the recording."""
        return [] if self.recording is None else self.recording.models

    @property
    def run(self) -> RunModel | None:
        """What flowed in the recording."""
        if self._run[0] is not self.recording:
            shown = self.recording
            model = None if shown is None else run_model(shown, self._opening.flowed(shown))
            # What a pass of the program's own left in `.grad` is known of the last one alone.
            if shown is not None and model and not model["grads"] and shown.run is self._seen:
                model["grads"] = self._stored.grown()
            self._run = shown, model
        model = self._run[1]
        return model and self._since.told(model, self._touched())

    def _touched(self) -> dict[int, torch.Tensor | None]:
        """The ``.grad`` of the leaves of which something has changed it since the pass."""
        own = self.grads
        if own is None:
            shown = self.recording
            return self._stored.touched() if shown and shown.run is self._seen else {}
        tensors = {timeline.node: timeline.tensor() for timeline in own.touched()}
        return {node: None if one is None else one.grad for node, one in tensors.items()}

    @property
    def cursor(self) -> int:
        """That of the recording."""
        return 0 if self.recording is None else self.recording.cursor

    @property
    def grads(self) -> Grads | None:
        """Those of a pass that gradwalk ran."""
        return None if self.recording is None else self.recording.run.grads

    @property
    def fault(self) -> str | None:
        """What went wrong within a hook."""
        return None if self._observer is None else self._observer.fault

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        """Put a hook on every node."""
        self._stored.tell(changed, begun)
        self._observer = Observer(
            self.captured.nodes,
            self._stored.end,
            {node for node, _ in self.captured.roots},
            self._max_bytes,
            on_begin=self._stored.begin,
        )

    def read_now(self) -> None:
        """The small values; of compiled code all, parts of which its first pass forgets."""
        _ = self.model if self.openable else self._values

    def afresh(self) -> Live:
        """The same graph, followed by nobody yet, without the passes that were seen."""
        other = copy.copy(self)
        other.freed = set(self.freed)
        other._opening = self._opening.afresh()
        other._seen = other._observer = None
        other.recording = None
        other._run = None, None
        other._told_compiled = False
        other._stored = Stored(self.captured)
        other._since = Since()
        return other

    def close(self) -> None:
        """Remove every hook and let go of what was recorded."""
        self._recording = self._seen = None
        self._run = None, None
        self._opening.forget()
        if self._observer is not None:
            self._observer.close()

    def backward(self, **asked: Any) -> None:
        """Run the real backward; `notice` then finds it.

        Args:
            **asked: As for `gradwalk.backward.run_backward.run_backward`.

        Raises:
            RuntimeError: Tensors that backward needs were freed by an earlier one.
            Exception: What `gradwalk.backward.run_backward.run_backward` raises.
        """
        if self.freed:
            raise RuntimeError(why.freed(self.captured, self.freed))
        run_backward(self.captured, self._observing, operations=self.is_watched, **asked)

    def notice(self) -> bool:
        """Take note of a pass that has ended.

        It is shown from now on, unless the user stands within a pass of gradwalk's own, not to be
        taken elsewhere.

        Returns:
            Whether there was one since the last call.
        """
        observer = self._observer
        if observer is None:
            return False
        last = observer.last
        compiled = observer.compiled and not self._told_compiled
        self._told_compiled = observer.compiled
        if last is None or last is self._seen or last.state == "running":
            return compiled
        before = 0 if self._seen is None else self._seen.number
        self._seen = last
        nodes = self.captured.nodes
        if last.number != before + 1:  # several have ended, any of which may have freed something
            self.freed.update(i for i, node in enumerate(nodes) if is_freed(node))
        elif not last.keeps_graph:
            self.freed.update(i for i in last.steps if is_freed(nodes[i]))
        if not self._is_travelling(last):
            self.recording = RecordedPass(self.captured, last)
        return True

    def _is_travelling(self, last: Run) -> bool:
        shown = self.recording
        return (
            last.grads is None
            and shown is not None
            and shown.run.grads is not None
            and shown.cursor < shown.run.total
        )

    @property
    def _observing(self) -> Observer:
        if self._observer is None:
            self.follow(lambda: None)
        assert self._observer is not None
        return self._observer

    def state(self) -> StateModel:
        """What has been seen of backward."""
        return state_model(self._observing, self.freed, self.graph, self._opening.node_of_edges())

    def memory(self) -> MemoryModel:
        """The bytes that the nodes hold for backward."""
        return memory_model(saved_memory(self.captured, self.namespaces))

    @grad_mode_kept
    def findings(
        self,
        called: Names,
        limits: Limits | None = None,
        *,
        is_explicit: bool = False,
        optimizers: Sequence[torch.optim.Optimizer] = (),
    ) -> list[Finding]:
        """What may be wrong with the graph and the pass that is shown."""
        evidence = Evidence(
            self.captured,
            self.recording,
            self.namespaces,
            called,
            is_explicit,
            optimizers,
            self._shared.parallel,
        )
        return judge(evidence, limits or Limits())

    def transport(self) -> TransportModel:
        """Whether travelling moves ``.grad``, and why not."""
        shown = self.recording
        return {
            "owned": shown is not None and shown.owned,
            "note": None if shown is None else shown.note,
            "blocked": why.freed(self.captured, self.freed) if self.freed else self._missing,
        }

    @functools.cached_property
    def _missing(self) -> str | None:
        """Why backward cannot start by itself, whatever was freed."""
        return why.blocked(self.captured)

    def reopened(self) -> TransportModel:
        """That it moves nothing, and what there is to say about the pass."""
        shown = self.recording
        return replayed(self.graph, shown is not None, None if shown is None else shown.note)

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """What the panel shows of a node; where a part cannot be made, a sentence says so."""
        return self.looking()(node, cursor)

    def looking(self) -> Callable[[int, int | None], DetailsModel]:
        """`details`; what several calls read is read once."""
        run = None if self.recording is None else self.recording.run
        return functools.partial(
            self._looked_at, Looking(self.captured, run), self._shared.buckets()
        )

    @grad_mode_kept
    def _looked_at(
        self, looking: Looking, bucket_of: BucketOf, node: int, cursor: int | None
    ) -> DetailsModel:
        # A click can be handled on another thread, in whatever grad mode that thread is in.
        with unseen(), torch.no_grad():
            try:
                found = self._details(looking, node, cursor)
                run = None if self.recording is None else self.recording.run
                self._shared.put(found, node, run, looking.summaries.of, bucket_of)
            except Exception as error:  # the picture and every other node still work
                sentence = could_not("details", error)
                found = blank_details(self.drawn, node, sentence, sentence)
        if node in self._tied:
            found["about"] = f"{why.about_tied(self._tied[node])} {found['about']}"
        if found["module"] is None and self.namespaces.get(node):
            found["module"] = self.namespaces[node].replace("/", ".")
        if node in self._derived:
            found["about"] += f" {self._derived[node]}"
        found["checkpoint"] = self._checkpointed.about(node)
        found["about"] = f"{about_transforms(self.captured.transforms)}{found['about']}"
        return found

    def _details(self, looking: Looking, node: int, cursor: int | None) -> DetailsModel:
        shown = self.recording
        if shown is not None and cursor is not None:
            _ = shown.models  # worked out once, not for every cursor that is asked about
            shown = copy.copy(shown)
            shown.cursor = cursor  # not by travelling, which would move every `.grad`
        place = self._opening.places.get(node)
        if place is not None:
            return inside_details(self._opening, node, place, shown, looking.summaries.of)
        found = details(looking, node, shown, self._drawn_values)
        found["about"] += self._opening.about(node)
        if shown is not None and cursor is not None and shown.owned:
            self._put_grad(looking, node, shown, found)
        return found

    def _put_grad(
        self, looking: Looking, node: int, recording: RecordedPass, found: DetailsModel
    ) -> None:
        """Put in what ``.grad`` is at the cursor of a pass that moves it."""
        run = recording.run
        assert run.grads is not None
        for timeline in run.grads.timelines:
            tensor = timeline.tensor()
            if timeline.node != node or tensor is None:
                continue
            moment = timeline.moments[timeline.at(recording.cursor)]
            missing = moment.grad is None
            if missing != (tensor.grad is None):
                found["explained"] = None  # it is about the `.grad` that is there now
            found["grad"] = None if missing else as_kept(moment).summarise(looking.summaries.of)
            state = recording.state(node)
            found["grad_note"]["grad"] = (
                why.no_grad(self.graph, node, tensor, run, state) if missing else None
            )
            return

    def rank(self) -> RankModel | None:
        """What this process says of its leaves, when the pass that is shown is over."""
        if not is_one_of_several():
            return None
        looking, end = self.looking(), len(self.steps)
        run = None if self.recording is None else self.recording.run
        with unseen(), torch.no_grad():
            return rank_model(
                self.captured,
                lambda node: looking(node, end),
                self._shared,
                self.run,
                run,
            )

    def changes(self, node: int) -> list[int]:
        """Where the node runs, where something arrives at it, where its ``.grad`` changes."""
        recording = self.recording
        place = self._opening.places.get(node)
        if place is not None:
            return self.changes(place.inside.node)
        if recording is None or node >= len(self.captured.nodes):
            return [0]
        run = recording.run
        found = {0}
        own = run.numbers.get(node)
        if own is not None:
            found |= {own, own + 1}
        takers = predecessors(self.graph)[node]
        found |= {run.numbers[source] for source in takers if source in run.numbers}
        for timeline in run.grads.timelines if run.grads is not None else ():
            if timeline.node == node:
                found |= {moment.step for moment in timeline.moments}
        return sorted(cursor for cursor in found if cursor <= run.total)

    def travel(self, cursor: int) -> None:
        """Move the cursor of the recording."""
        if self.recording is not None and self.recording.cursor != cursor:
            self.recording.travel(cursor)

    def find(self, node: int | str) -> int:
        """After which step of the recording a node has just run."""
        found = find_node(self.graph, node)
        return 0 if self.recording is None else self.recording.find(found)

    def leaf(self, node: int) -> torch.Tensor | None:
        """The leaf tensor of an AccumulateGrad, or of a constant, a cut or a cut's source."""
        if node < len(self.captured.nodes):
            return leaf_tensor(self.captured.nodes[node])
        if self._opening.places.get(node) is not None:
            return None
        tensor = self.captured.extra(node).tensor
        return tensor if tensor is not None and tensor.is_leaf else None

    def accumulated(self) -> list[torch.Tensor]:
        """The leaves, and the tensors that retain their gradient."""
        leaves = map(leaf_tensor, self.captured.nodes)
        others = (reference() for reference in self.captured.tensors.values())
        return [
            *(tensor for tensor in leaves if tensor is not None),
            *(tensor for tensor in others if tensor is not None and tensor.retains_grad),
        ]

    def paused(self) -> AbstractContextManager[None]:
        """Within it the hooks see nothing."""
        return self._observing.paused()

    def to_networkx(self) -> nx.MultiDiGraph:
        """The graph with what `watch` saw, and without what was inferred; a copy."""
        graph = self.captured.watched()
        return tied(graph) if self._opening.inside else graph
