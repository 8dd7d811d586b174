"""Define `GraphSource`, the interface of live, static and saved graphs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch

from ..backward.leaf_grads import LeafGrads
from ..backward.recorded_pass import RecordedPass
from ..checks.finding import Finding
from ..checks.run_checks import Limits
from ..graph.names import Names
from ..schema.backward import RunModel, StateModel, StepModel, TransportModel
from ..schema.details import DetailsModel
from ..schema.findings import MemoryModel
from ..schema.graph import GraphModel
from ..schema.ranks import RankModel
from ..tracing.annotate import Annotated
from .open_nodes import Opening

if TYPE_CHECKING:
    import networkx as nx

_S = TypeVar("_S", bound="ReadOnlySource")


class GraphSource(Protocol):
    """A graph that can be shown, and what is known of backward through it.

    Three adapters implement it: `gradwalk.sources.live_graph.LiveGraph` for live tensors,
    `gradwalk.sources.static_graph.StaticGraph` for an exported program, and
    `gradwalk.sources.saved_graph.SavedGraph` for a file. Its members are documented here only.

    Attributes:
        graph: The graph, as `gradwalk.capture` gives it.
        drawn: The same graph with its constants, cuts and numbers.
        size: Number of drawn nodes.
        is_watched: Whether `gradwalk.watch` saw the program that made it.
        runs_backward: Whether backward can run through it, if nothing was freed.
        direction: Which way its gradients flow in a drawing, unless somebody chooses.
        model: The drawn graph, as plain values.
        recorded: The shown pass, to tell it from another; None before any.
        steps: The nodes that ran in that pass, in the engine's order.
        run: The gradients of that pass, in few numbers; None before any.
        cursor: Number of completed steps.
        grads: The ``.grad`` of the tensors that the pass owns, step by step; None when it owns
            none.
        fault: A sentence when watching went wrong, or None.
        autograd: The graph with its autograd nodes, through which backward can run; None for a
            source without autograd nodes.
        recording: The pass with its tensors; None before any, and for a source without tensors.
        openable: The nodes that can be opened.
        loaded_ranks: The ranks whose files are loaded, ascending.
        on_rank: Return the same source with the graph of another loaded rank; None without ranks.
    """

    @property
    def openable(self) -> Sequence[int]: ...

    @property
    def autograd(self) -> Annotated | None: ...
    @property
    def recording(self) -> RecordedPass | None: ...
    @property
    def graph(self) -> nx.MultiDiGraph: ...
    @property
    def drawn(self) -> nx.MultiDiGraph: ...
    @property
    def size(self) -> int: ...
    @property
    def is_watched(self) -> bool: ...
    @property
    def runs_backward(self) -> bool: ...
    @property
    def direction(self) -> str: ...
    @property
    def model(self) -> GraphModel: ...
    @property
    def recorded(self) -> object | None: ...
    @property
    def steps(self) -> list[StepModel]: ...
    @property
    def run(self) -> RunModel | None: ...
    @property
    def cursor(self) -> int: ...
    @property
    def grads(self) -> LeafGrads | None: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def loaded_ranks(self) -> Sequence[int]: ...
    @property
    def on_rank(self) -> Callable[[int], GraphSource] | None: ...

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        """Watch what runs through the graph from now on.

        Args:
            changed: Called when a pass that someone else started has ended. Held weakly when it is
                a bound method.
            begun: Called when any pass has begun, before a leaf's ``.grad`` has changed. Held
                likewise.
        """

    def read_now(self) -> None:
        """Read what the program may change or drop from now on; the rest can wait."""

    def poll(self) -> bool:
        """Take note of a pass that has ended; whether there is news since the last call."""
        ...

    def state(self) -> StateModel:
        """Return what is known about the backward passes so far."""
        ...

    def transport(self) -> TransportModel:
        """Return whether moving the cursor changes ``.grad``, and if not, why."""
        ...

    def reopened(self) -> TransportModel:
        """Return the `transport` of a copy that is opened from a file."""
        ...

    def memory(self) -> MemoryModel:
        """Return the bytes that the nodes hold for backward."""
        ...

    def findings(
        self,
        called: Names,
        limits: Limits | None = None,
        *,
        is_explicit: bool = False,
        optimizers: Sequence[torch.optim.Optimizer] = (),
    ) -> list[Finding]:
        """Return what may be wrong with the graph.

        Args:
            called: The program's names for its parameters.
            limits: The thresholds; None for the usual ones.
            is_explicit: Whether everything named in ``called`` belongs to the model.
            optimizers: The optimizers that will update the parameters, if any were given.
        """
        ...

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """Return the contents of the panel for a node.

        Args:
            node: A node of ``drawn``.
            cursor: Number of completed steps of the pass; None for the current cursor. The cursor
                does not move.
        """
        ...

    def looking(self) -> Callable[[int, int | None], DetailsModel]:
        """`details`, to be asked of many nodes: what they have in common is read once.

        It holds what it has read, and does not see what changes meanwhile: it is for one call.
        """
        ...

    def changes(self, node: int) -> list[int]:
        """The cursors at which the details of a node may become others, 0 the first."""
        ...

    def backward(self, **asked: Any) -> None:
        """Run the real backward; `poll` then finds it.

        Args:
            **asked: As for `gradwalk.backward.run_backward.run_backward`.

        Raises:
            RuntimeError: It cannot run, and why.
            Exception: The error that the pass raises.
        """

    def seek(self, cursor: int) -> None:
        """Move the cursor, and with it every ``.grad`` that the pass owns."""

    def find(self, node: int | str) -> int:
        """After which step a node has just run.

        Args:
            node: Its id, or the name of its tensor.

        Raises:
            TypeError: ``node`` is neither.
            ValueError: No node is called so, several are, or it did not run in this pass.
        """
        ...

    def leaf(self, node: int) -> torch.Tensor | None:
        """The leaf tensor that a node of ``drawn`` stands for, while it lives."""
        ...

    def accumulated(self) -> list[torch.Tensor]:
        """The tensors whose ``.grad`` backward adds to."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Within it nothing is watched: a pass runs that is none of this graph's."""
        ...

    def to_networkx(self) -> nx.MultiDiGraph:
        """The graph, as `gradwalk.capture` gives it; a copy."""
        ...

    def rank(self) -> RankModel | None:
        """What this process says beside its graph, for the other ranks' to be laid beside it.

        None where it has joined no others, or runs nothing.
        """
        ...

    def expand(self, node: int) -> None:
        """Show what is inside of a node; its id and those of all autograd nodes stay the same.

        Raises:
            ValueError: It has nothing inside that can be shown.
        """

    def all_open(self) -> Opening | None:
        """The graph with all compiled code open that can be, and its numbers; None for none."""
        ...

    def collapse(self, node: int) -> None:
        """Hide it again.

        Raises:
            ValueError: It has nothing inside.
        """

    def clone(self) -> GraphSource:
        """The same graph, to be shown and closed by somebody else."""
        ...

    def close(self) -> None:
        """Remove every hook, and let go of what was recorded."""


_NOTHING_BEHIND = (
    "There are no autograd nodes behind this picture (it was opened from a file, or is of a static "
    "graph), so nothing in it can be opened or closed. A file shows what was open when it was "
    "saved."
)


class ReadOnlySource:
    """The common part of all sources through which backward cannot run."""

    runs_backward = False
    grads: LeafGrads | None = None
    fault: str | None = None
    autograd: Annotated | None = None
    recording: RecordedPass | None = None
    openable: Sequence[int] = ()
    loaded_ranks: Sequence[int] = ()
    on_rank: Callable[[int], GraphSource] | None = None

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        """Nothing runs through it."""

    def read_now(self) -> None:
        """Nothing changes it."""

    def poll(self) -> bool:
        return False

    def leaf(self, node: int) -> torch.Tensor | None:  # noqa: ARG002
        return None

    def accumulated(self) -> list[torch.Tensor]:
        return []

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def rank(self) -> RankModel | None:
        return None

    def expand(self, node: int) -> None:  # noqa: ARG002
        raise ValueError(_NOTHING_BEHIND)

    def all_open(self) -> Opening | None:
        return None

    def collapse(self, node: int) -> None:
        self.expand(node)

    def clone(self: _S) -> _S:
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""
