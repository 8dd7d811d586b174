"""A graph of tensors that are alive, followed through its backward passes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.leaf_grads import LeafGrads
from ..backward.open_passes import announce
from ..backward.recorded_pass import RecordedPass, find_node
from ..backward.recorded_run import RecordedRun
from ..backward.run_backward import run_backward
from ..checks.context import CheckContext
from ..checks.finding import Finding
from ..checks.memory import memory_model, saved_memory
from ..checks.run_checks import Limits, run_checks
from ..explain import describe_node as why
from ..explain.freed import why_freed
from ..graph.names import Names
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel
from ..schema.findings import MemoryModel
from ..schema.graph import GraphModel
from ..schema.ranks import RankModel
from ..torch_api.modes import grad_mode_kept, unseen
from ..torch_api.nodes import leaf_tensor
from ..tracing.annotate import Annotated
from .distributed_leaves import DistributedLeaves
from .graph_model import state_model
from .inner_graph import tied
from .live_details import LiveDetails, cursors_of_changes
from .live_drawing import LiveDrawing
from .live_passes import LivePasses
from .open_nodes import Opening
from .saved_graph import replayed
from .this_rank import is_one_of_several, rank_model

if TYPE_CHECKING:
    import networkx as nx


class LiveGraph:
    """A graph of tensors that are alive; see `gradwalk.sources.graph_source.GraphSource`."""

    runs_backward = True
    direction = "auto"
    loaded_ranks: Sequence[int] = ()
    on_rank = None

    def __init__(self, captured: Annotated, names: Names, max_bytes: int = DEFAULT_BUDGET) -> None:
        """Look at a graph; `follow` watches it.

        Args:
            captured: The graph.
            names: The user's names for tensors and modules.
            max_bytes: The most bytes of gradients to keep for each pass.
        """
        self._opening = Opening(captured, max_bytes)
        self._passes = LivePasses(self._opening, max_bytes)
        self._shared = DistributedLeaves(captured, names)
        self._picture = LiveDrawing(captured, names, self._opening, self.freed, self._shared)
        self._details = LiveDetails(self._opening, self._picture, self._shared)

    @property
    def freed(self) -> set[int]:
        """Ids of the nodes whose saved tensors are gone."""
        return self._passes.freed

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
    def namespaces(self) -> Mapping[int, str]:
        """The modules of the nodes, watched or inferred."""
        return self._picture.namespaces

    @property
    def model(self) -> GraphModel:
        return self._picture.model

    @property
    def recording(self) -> RecordedPass | None:
        return self._passes.shown

    @recording.setter
    def recording(self, recording: RecordedPass | None) -> None:
        self._passes.shown = recording
        self._show()

    def _show(self) -> None:
        """The picture is of the pass that is shown."""
        shown = self._passes.shown
        if self._picture.show(None if shown is None else shown.run):
            self._passes.drawn_anew()

    @property
    def last_run(self) -> RecordedRun | None:
        """The latest pass that was seen, also one that is not shown yet."""
        return self._passes.last_run

    @property
    def openable(self) -> Sequence[int]:
        return self._opening.openable

    def all_open(self) -> Opening:
        return self._opening.wide()

    def expand(self, node: int) -> None:
        self._picture.expand(node)
        self._passes.drawn_anew()

    def collapse(self, node: int) -> None:
        self._picture.collapse(node)
        self._passes.drawn_anew()

    @property
    def recorded(self) -> object | None:
        return self.recording

    @property
    def steps(self) -> list[StepModel]:
        return [] if self.recording is None else self.recording.models

    @property
    def run(self) -> RunModel | None:
        return self._passes.run

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
        """The small values; of compiled code all, parts of which its first pass forgets."""
        self._picture.read_now()

    def clone(self) -> LiveGraph:
        """The same graph, followed by nobody yet, without the passes that were seen."""
        other = copy.copy(self)
        other._opening = self._opening.clone()
        other._passes = self._passes.clone(other._opening)
        other._picture = self._picture.clone(other._opening, other.freed)
        other._details = LiveDetails(other._opening, other._picture, other._shared)
        other.recording = None
        return other

    def close(self) -> None:
        self._passes.close()
        self._opening.forget()

    def backward(self, **asked: Any) -> None:
        if self.freed:
            raise RuntimeError(why_freed(self.captured, self.freed))
        run_backward(self.captured, self._passes.observer, operations=self.is_watched, **asked)

    def poll(self) -> bool:
        """Take note of a pass that has ended.

        It is shown from now on, unless the user stands within a pass of gradwalk's own, not to be
        taken elsewhere.

        Returns:
            Whether there was one since the last call.
        """
        is_news = self._passes.poll()
        self._show()
        return is_news

    def state(self) -> StateModel:
        inside = self._opening.node_of_edges()
        return state_model(
            self._passes.observer, self.freed, self.graph, inside, self._passes.held()
        )

    def memory(self) -> MemoryModel:
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
        evidence = CheckContext(
            self.captured,
            self.recording,
            self.namespaces,
            called,
            is_explicit,
            optimizers,
            self._shared.parallel,
        )
        return run_checks(evidence, limits or Limits())

    def transport(self) -> TransportModel:
        shown = self.recording
        return {
            "owned": shown is not None and shown.owned,
            "note": None if shown is None else shown.note,
            "blocked": why_freed(self.captured, self.freed) if self.freed else self._missing,
        }

    @functools.cached_property
    def _missing(self) -> str | None:
        """Why backward cannot start by itself, whatever was freed."""
        return why.blocked(self.captured)

    def reopened(self) -> TransportModel:
        shown = self.recording
        return replayed(self.graph, shown is not None, None if shown is None else shown.note)

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        return self.looking()(node, cursor)

    def looking(self) -> Callable[[int, int | None], DetailsModel]:
        return self._details.looking(self.recording)

    def rank(self) -> RankModel | None:
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
        return cursors_of_changes(self.recording, self._opening, node)

    def seek(self, cursor: int) -> None:
        if self.recording is not None and self.recording.cursor != cursor:
            self.recording.seek(cursor)

    def find(self, node: int | str) -> int:
        found = find_node(self.graph, node)
        return 0 if self.recording is None else self.recording.find(found)

    def leaf(self, node: int) -> torch.Tensor | None:
        if node < len(self.captured.nodes):
            return leaf_tensor(self.captured.nodes[node])
        if self._opening.places.get(node) is not None:
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

    def paused(self) -> AbstractContextManager[None]:
        return self._passes.observer.paused()

    def to_networkx(self) -> nx.MultiDiGraph:
        graph = self.captured.watched()
        return tied(graph) if self._opening.inside else graph
