"""`GraphSource`, the interface of live, static and saved graphs, and its state at one moment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from ..lazily import nx
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel
from ..schema.findings import FindingModel, MemoryModel
from ..schema.graph import GraphModel, OverlayModel
from ..schema.ranks import RankModel

if TYPE_CHECKING:
    import torch

    from ..backward.leaf_grads import LeafGrads
    from ..backward.recorded_pass import RecordedPass
    from ..checks.finding import Finding
    from ..checks.run_checks import Limits
    from ..graph.names import Names
    from ..tracing.annotate import Annotated
    from .open_nodes import Opening

_MOST_NAMED = 20

MOST_SHOWN = 200  # most nodes of a graph whose constants are drawn by default


def read_constants(constants: Any) -> bool | None:
    """Check the argument ``constants``; None means the default."""
    if constants is not None and not isinstance(constants, bool):
        raise TypeError(
            f"constants was given {constants!r}. Use True to draw operands that need no grad, "
            "False to leave them out, or None to draw them in small graphs only."
        )
    return constants


def are_small(sources: Iterable[GraphSource]) -> bool:
    """Return whether constants are drawn by default: they would hide the rest of a large graph."""
    return all(source.size <= MOST_SHOWN for source in sources)


class DiagnosisRequest(NamedTuple):
    """The arguments of `diagnose`."""

    called: Names  # the program's names for its parameters
    limits: Limits
    is_explicit: bool = False  # whether everything that is called so belongs to the model
    optimizers: Sequence[torch.optim.Optimizer] = ()  # those that will update the parameters


@dataclass(frozen=True)
class Snapshot:
    """The state that a widget shows, from which pictures, pages and files are made."""

    source: GraphSource  # the graph, its pass and its cursor
    direction: str  # the direction of gradients in the drawing
    constants: bool  # whether operands that need no grad are drawn
    selected: int | None = None  # the id of the selected node, or None
    # The findings, if they were computed; None before that.
    findings: list[FindingModel] | None = None
    # The number of completed calls inside the open node of the last step; 0 after the whole step.
    inner: int = 0

    def explain(self, name: str) -> str:
        """Explain the ``.grad`` of each leaf of a name, a line for each; ValueError without any."""
        leaves = {
            node: data["name"]
            for node, data in self.source.drawn.nodes(data=True)
            if data["kind"] == "leaf" and data["name"] is not None
        }
        found = [node for node, called in leaves.items() if called == name]
        if not found:
            names = sorted(set(leaves.values()))
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            listed = f"Give one of {', '.join(map(repr, names[:_MOST_NAMED]))}{more}."
            raise ValueError(
                f"explain_grad() was given {name!r}, which does not name a leaf of this graph. "
                + (listed if names else "No leaf of it has a name.")
            )
        details = (self.source.details(node) for node in found)
        return "\n".join(each["explained"] or each["about"] for each in details)


@runtime_checkable
class HasGraphs(Protocol):
    """A widget or a comparison, of one graph or of several."""

    def _graphs_shown(self) -> Mapping[str, Snapshot]:
        """Return the state of each graph that is shown, by its label."""


@runtime_checkable
class TakesSnapshots(Protocol):
    """A widget that shows one graph."""

    def _shown(self) -> Snapshot:
        """Return its current state; raise ValueError if it is closed."""


_S = TypeVar("_S", bound="ReadOnlySource")
_Call = Callable[[], None]


class GraphSource(Protocol):
    """A graph that can be shown, and what is known of backward through it.

    `LiveGraph` implements it for live tensors, `StaticGraph` for an exported program, and
    `SavedGraph` for a file. Its members are documented here only.
    """

    overlays: tuple[OverlayModel, ...]  # numbers of its nodes that colours can show

    @property
    def openable(self) -> Sequence[int]: ...  # the nodes that can be opened
    @property
    def autograd(self) -> Annotated | None: ...  # through which backward can run, with its nodes
    @property
    def recording(self) -> RecordedPass | None: ...  # the pass with its tensors; None before any
    @property
    def graph(self) -> nx.MultiDiGraph: ...  # as `gradwalk.capture` gives it
    @property
    def drawn(self) -> nx.MultiDiGraph: ...  # the same with its constants, cuts and numbers
    @property
    def size(self) -> int: ...  # number of drawn nodes
    @property
    def is_watched(self) -> bool: ...  # whether `watch` saw the program that made it
    @property
    def runs_backward(self) -> bool: ...  # whether backward can run, if nothing was freed
    @property
    def direction(self) -> str: ...  # the default direction of gradients in a drawing
    @property
    def model(self) -> GraphModel: ...  # the drawn graph, as plain values
    @property
    def recorded(self) -> object | None: ...  # the shown pass, to compare by identity
    @property
    def steps(self) -> list[StepModel]: ...  # the nodes that ran in it, in the engine's order
    @property
    def run(self) -> RunModel | None: ...  # its gradients as plain values
    @property
    def cursor(self) -> int: ...  # number of completed steps
    @property
    def grads(self) -> LeafGrads | None: ...  # the ``.grad`` that the pass owns, step by step
    @property
    def fault(self) -> str | None: ...  # a sentence when watching went wrong
    @property
    def loaded_ranks(self) -> Sequence[int]: ...  # the ranks whose files are loaded, ascending
    @property
    def on_rank(self) -> Callable[[int], GraphSource] | None: ...  # the graph of a loaded rank

    # Watch what runs through the graph. ``changed``: called when a pass that someone else started
    # has ended. ``begun``: called when any pass has begun, before a leaf's ``.grad`` has changed.
    # Bound methods are held weakly.
    def follow(self, changed: _Call, begun: _Call | None = None) -> None: ...
    def read_now(self) -> None: ...  # reads what the program may change or free from now on
    def poll(self) -> bool: ...  # shows a pass that has ended; whether there was a new one
    def state(self) -> StateModel: ...  # what is known about the backward passes so far
    def transport(self) -> TransportModel: ...  # whether the cursor moves ``.grad``; else why not
    def reopened(self) -> TransportModel: ...  # the same of a copy that is opened from a file
    def memory(self) -> MemoryModel: ...  # the bytes that the nodes hold for backward
    def findings(self, request: DiagnosisRequest | None = None) -> list[Finding]: ...
    # The contents of the panel for a drawn node, at the cursor or another one.
    def details(self, node: int, cursor: int | None = None) -> DetailsModel: ...
    # The same for many nodes: it caches what they share, so use it for one call.
    def details_reader(self) -> Callable[[int, int | None], DetailsModel]: ...
    def changes(self, node: int) -> list[int]: ...  # cursors at which details may change, from 0
    # Runs the real backward with the options of `run_backward`; `poll` then finds it. Raises a
    # RuntimeError that says why it cannot run, and any error that the pass raises.
    def backward(self, **options: Any) -> None: ...
    def seek(self, cursor: int) -> None: ...  # moves the cursor, and every ``.grad`` of the pass
    # The step after which a node has run; raises ValueError if it did not run.
    def find(self, node: int | str) -> int: ...
    def leaf(self, node: int) -> torch.Tensor | None: ...  # behind a node of ``drawn``
    def accumulated(self) -> list[torch.Tensor]: ...  # those whose ``.grad`` backward adds to
    def paused(self) -> AbstractContextManager[None]: ...  # within it nothing is recorded
    def to_networkx(self) -> nx.MultiDiGraph: ...  # a copy, as `gradwalk.capture` gives it
    def rank(self) -> RankModel | None: ...  # this process's report for the other ranks
    # Show and hide the inside of a node; ValueError if it has none that can be shown.
    def expand(self, node: int) -> None: ...
    def collapse(self, node: int) -> None: ...
    def all_open(self) -> Opening | None: ...  # a copy with all compiled code open
    def clone(self) -> GraphSource: ...  # the same graph for another widget, which closes it
    def close(self) -> None: ...  # removes every hook, and drops what was recorded


_NOTHING_BEHIND = (
    "This picture was opened from a file, or shows a static graph, so nothing in it can be opened "
    "or closed. A file shows what was open when it was saved."
)


class ReadOnlySource:
    """The common part of all sources through which backward cannot run."""

    runs_backward = False
    graph: nx.MultiDiGraph
    drawn: nx.MultiDiGraph
    cursor = 0
    grads: LeafGrads | None = None
    fault: str | None = None
    autograd: Annotated | None = None
    recording: RecordedPass | None = None
    openable: Sequence[int] = ()
    overlays: tuple[OverlayModel, ...] = ()
    loaded_ranks: Sequence[int] = ()
    on_rank: Callable[[int], GraphSource] | None = None

    @property
    def size(self) -> int:
        return len(self.drawn)

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        """Nothing runs through it."""

    def read_now(self) -> None:
        """Nothing changes it."""

    def poll(self) -> bool:
        return False

    def transport(self) -> TransportModel:
        raise NotImplementedError

    def reopened(self) -> TransportModel:
        return self.transport()

    def findings(self, *_: Any, **__: Any) -> list[Finding]:
        return []

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        raise NotImplementedError

    def details_reader(self) -> Callable[[int, int | None], DetailsModel]:
        return self.details

    def leaf(self, _node: int) -> torch.Tensor | None:
        return None

    def accumulated(self) -> list[torch.Tensor]:
        return []

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rank(self) -> RankModel | None:
        return None

    def expand(self, _node: int) -> None:
        raise ValueError(_NOTHING_BEHIND)

    def collapse(self, node: int) -> None:
        self.expand(node)

    def all_open(self) -> Opening | None:
        return None

    def clone(self: _S) -> _S:
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
