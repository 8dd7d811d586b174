"""The backward passes through a live graph, which hooks record; one of them is shown."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch

from ..backward.leaf_grads import LeafGrads
from ..backward.observe import Observer
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun
from ..schema.backward import HeldModel, RunModel
from ..torch_api.saved_tensors import is_freed
from .graph_model import run_model
from .open_nodes import Opening
from .stored_grads import Since, StoredGrads


class LivePasses:
    """The passes through one graph since `follow` was called.

    Attributes:
        freed: Ids of the nodes whose saved tensors are gone.
        shown: The pass that is shown; None before any.
    """

    def __init__(self, opening: Opening, max_bytes: int) -> None:
        """Begin before the first pass; `follow` watches the graph.

        Args:
            opening: The graph.
            max_bytes: The most bytes of gradients to keep for each pass.
        """
        captured = opening.captured
        self.freed = {i for i, node in enumerate(captured.nodes) if is_freed(node)}
        self.shown: RecordedPass | None = None
        self._opening = opening
        self._max_bytes = max_bytes
        self._observer: Observer | None = None
        self._last: RecordedRun | None = None
        self._told_compiled = False
        self._run: tuple[object, RunModel | None] = None, None
        self._stored = StoredGrads(captured)
        self._since = Since()

    def clone(self, opening: Opening) -> LivePasses:
        """Return an empty record of the same graph, without hooks."""
        other = copy.copy(self)
        other.freed = set(self.freed)
        other.shown = other._last = other._observer = None
        other._opening = opening
        other._told_compiled = False
        other._run = None, None
        other._stored = StoredGrads(opening.captured)
        other._since = Since()
        return other

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        """Put a hook on every node.

        Args:
            changed: Called when a pass has ended. Held weakly when it is a bound method.
            begun: Called when a pass has begun. Held likewise.
        """
        self._stored.tell(changed, begun)
        captured = self._opening.captured
        self._observer = Observer(
            captured.nodes,
            self._stored.end,
            {node for node, _ in captured.roots},
            self._max_bytes,
            on_begin=self._stored.begin,
        )

    @property
    def observer(self) -> Observer:
        """The hooks, created on first use."""
        if self._observer is None:
            self.follow(lambda: None)
        assert self._observer is not None
        return self._observer

    @property
    def fault(self) -> str | None:
        """The error of a hook, if any."""
        return None if self._observer is None else self._observer.fault

    @property
    def last_run(self) -> RecordedRun | None:
        """The latest observed pass, also one that is not shown yet."""
        last = None if self._observer is None else self._observer.last
        return self.shown.run if last is None and self.shown is not None else last

    def close(self) -> None:
        """Remove every hook and drop the recorded passes."""
        self.shown = self._last = None
        self._run = None, None
        if self._observer is not None:
            self._observer.close()

    def poll(self) -> bool:
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
        if last is None or last is self._last or last.state == "running":
            return compiled
        before = 0 if self._last is None else self._last.number
        self._last = last
        captured = self._opening.captured
        nodes = captured.nodes
        if last.number != before + 1:  # several have ended, each of which may have freed tensors
            self.freed.update(i for i, node in enumerate(nodes) if is_freed(node))
        elif not last.keeps_graph:
            self.freed.update(i for i in last.steps if is_freed(nodes[i]))
        if not self._is_travelling(last):
            self.shown = RecordedPass(captured, last)
        return True

    def _is_travelling(self, last: RecordedRun) -> bool:
        shown = self.shown
        return (
            last.grads is None
            and shown is not None
            and shown.run.grads is not None
            and shown.cursor < shown.run.total
        )

    @property
    def grads(self) -> LeafGrads | None:
        """The ``.grad`` of the shown pass, if gradwalk ran it."""
        return None if self.shown is None else self.shown.run.grads

    @property
    def run(self) -> RunModel | None:
        """The gradients of the shown pass."""
        shown = self.shown
        if self._run[0] is not shown:
            model = None if shown is None else run_model(shown, self._opening.flowed(shown))
            # Of the program's own passes, only the last one's `.grad` is known.
            if shown is not None and model and not model["grads"] and shown.run is self._last:
                model["grads"] = self._stored.grown()
            self._run = shown, model
        model = self._run[1]
        return model and self._since.told(model, self._touched())

    def drawn_anew(self) -> None:
        """Recompute the gradients, because other nodes are open."""
        self._run = None, None

    def _touched(self) -> dict[int, torch.Tensor | None]:
        """The ``.grad`` of the leaves where it has changed since the pass."""
        own = self.grads
        if own is None:
            shown = self.shown
            return self._stored.touched() if shown and shown.run is self._last else {}
        tensors = {timeline.node: timeline.tensor() for timeline in own.touched()}
        return {node: None if one is None else one.grad for node, one in tensors.items()}

    def held(self) -> Sequence[HeldModel]:
        """The ``.grad`` of leaves that no recorded pass explains."""
        return self._stored.held() if self.shown is None else ()
