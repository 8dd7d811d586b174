"""The backward passes through a live graph, which hooks record; one of them is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from ..backward.leaf_grads import LeafGrads
from ..backward.observe import Observer
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun
from ..graph.capture import Capture
from ..schema.backward import FewModel, GrownModel, HeldModel, RunModel
from ..torch_api.nodes import keeps_tensors
from ..torch_api.saved_tensors import is_freed
from .graph_model import run_model
from .open_nodes import Opening
from .stored_grads import StoredGrads, few_of_each

_MOST = 1_000  # leaves, and tensors that may retain their gradient


def freed_nodes(captured: Capture) -> list[int]:
    """Return the nodes whose saved tensors are gone."""
    nodes = captured.nodes
    return [i for i in captured.of_classes(keeps_tensors) if is_freed(nodes[i])]


class LivePasses:
    """The passes through one graph since `follow` was called."""

    def __init__(
        self, captured: Capture, max_bytes: int, freed: Iterable[int] | None = None
    ) -> None:
        """Begin before the first pass. Without ``freed``, look which nodes have been freed."""
        if freed is None:
            freed = freed_nodes(captured)
        self.freed = set(freed)  # ids of the nodes whose saved tensors are gone
        self.shown: RecordedPass | None = None  # the pass that is shown; None before any
        self._captured = captured
        self._max_bytes = max_bytes
        self._observer: Observer | None = None
        self._last: RecordedRun | None = None
        self._reported_unseen = False
        self._stored = StoredGrads(captured)
        self._model: _RunModel | None = None

    def clone(self) -> LivePasses:
        """Return an empty record of the same graph, without hooks."""
        return LivePasses(self._captured, self._max_bytes, self.freed)

    def follow(self, changed: Callable[[], None], begun: Callable[[], None] | None = None) -> None:
        """Put a hook on every node; the callbacks are held weakly when they are bound methods."""
        self._stored.follow(changed, begun)
        self._observer = Observer(
            self._captured.nodes,
            self._stored.end,
            {node for node, _ in self._captured.roots},
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
        self.shown = self._last = self._model = None
        if self._observer is not None:
            self._observer.close()

    def poll(self) -> bool:
        """Show a pass that has ended, unless within an own one; return whether there was."""
        observer = self._observer
        if observer is None:
            return False
        last = observer.last
        is_unseen = observer.unseen is not None and not self._reported_unseen
        self._reported_unseen = observer.unseen is not None
        if last is None or last is self._last or last.state == "running":
            return is_unseen
        before = 0 if self._last is None else self._last.number
        self._last = last
        nodes = self._captured.nodes
        if last.number != before + 1:  # several have ended, each of which may have freed tensors
            self.freed.update(freed_nodes(self._captured))
        elif not (last.keeps_graph and last.total):
            ran = last.steps or range(len(nodes))  # without steps, any of them may have run
            self.freed.update(i for i in ran if is_freed(nodes[i]))
        if last.grads is not None or not self._is_within_own_pass():
            self.shown = RecordedPass(self._captured, last)
        return True

    def _is_within_own_pass(self) -> bool:
        shown = self.shown
        return shown is not None and shown.run.grads is not None and shown.cursor < shown.run.total

    @property
    def grads(self) -> LeafGrads | None:
        """The ``.grad`` of the shown pass, if gradwalk ran it."""
        return None if self.shown is None else self.shown.run.grads

    def run(self, opening: Opening) -> RunModel | None:
        """Return the gradients of the shown pass; the same object until something in it changes."""
        shown = self.shown
        if shown is None:
            self._model = None
            return None
        known = self._model
        if known is None or known.shown is not shown or known.drawn is not opening.captured:
            model = run_model(shown, opening.flowed(shown))
            # Only the last one of the program's own passes has a known `.grad`.
            if not model["grads"] and shown.run is self._last:
                model["grads"] = self._stored.grown()
            self._model = known = _RunModel(shown, opening.captured, model)
        return known.with_changes(self._changed())

    def _changed(self) -> dict[int, torch.Tensor | None]:
        """The ``.grad`` of the leaves where it has changed since the shown pass."""
        own = self.grads
        if own is None:
            is_last = self.shown is not None and self.shown.run is self._last
            return self._stored.changed() if is_last else {}
        tensors = {timeline.node: timeline.tensor() for timeline in own.touched()}
        return {node: None if one is None else one.grad for node, one in tensors.items()}

    def held(self) -> Sequence[HeldModel]:
        """The ``.grad`` of leaves that no recorded pass explains."""
        return self._stored.held() if self.shown is None else ()


class _RunModel:
    """The model of a pass as it is drawn, and the same with each ``.grad`` changed since."""

    def __init__(self, shown: RecordedPass, drawn: Capture, model: RunModel) -> None:
        self.shown = shown
        self.drawn = drawn
        self._model = self._latest = model
        self._now: dict[int, FewModel | None] = {}

    def with_changes(self, changed: Mapping[int, torch.Tensor | None]) -> RunModel:
        """Return the model with the current value of each changed ``.grad``, by node."""
        now: dict[int, FewModel | None] = {}
        if changed:
            found = few_of_each({node: grad for node, grad in changed.items() if grad is not None})
            now = {node: found.get(node) for node in changed}
        if now != self._now:
            self._now = now
            grads: list[GrownModel] = [
                {**grad, "changed": True, "now": now[grad["node"]]} if grad["node"] in now else grad
                for grad in self._model["grads"]
            ]
            self._latest = {**self._model, "grads": grads}
        return self._latest if now else self._model
