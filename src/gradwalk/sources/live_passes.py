"""The backward passes through a live graph, which hooks record; one of them is shown."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..backward.kept_gradients import KeptGradient, norm_of
from ..backward.leaf_grads import LeafGrads, is_small, same_values
from ..backward.observe import Observer, weakly
from ..backward.recorded_pass import RecordedPass
from ..backward.recorded_run import RecordedRun
from ..graph.capture import Capture
from ..schema.backward import FewModel, GrownModel, HeldModel, RunModel
from ..schema.json_values import json_number
from ..torch_api.modes import unseen
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import version_of, why_unreadable
from ..torch_api.saved_tensors import is_freed
from .graph_model import FEW, few_of, run_model
from .open_nodes import Opening

_MOST = 1_000  # leaves, and tensors that may retain their gradient


@dataclass(frozen=True)
class _Large:
    """A ``.grad`` that is too large to copy."""

    ref: weakref.ref[torch.Tensor]  # the tensor
    version: int  # its version then
    norm: torch.Tensor | None = None  # its norm then, on its device; None if it was not taken

    def is_now(self, grad: torch.Tensor | None) -> bool:
        """Whether a tensor is this one, not changed since."""
        return grad is not None and grad is self.ref() and version_of(grad) == self.version

    def few(self) -> FewModel:
        norm = None if self.norm is None else json_number(float(self.norm))
        return {"values": None, "norm": norm}


class StoredGrads:
    """Notes each leaf's ``.grad`` before and after each pass: small ones as copies."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        self._before: dict[int, torch.Tensor] = {}
        self._after: dict[int, torch.Tensor] = {}
        self._held: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}  # right after it
        self._began: dict[int, torch.Tensor] = {}  # of a pass that has not ended yet
        self._large_before: dict[int, _Large] = {}
        self._large_began: dict[int, _Large] = {}
        self._large_after: dict[int, _Large] = {}
        self._begun: Callable[[], Callable[[], None] | None] = lambda: None
        self._ended: Callable[[], Callable[[], None] | None] = lambda: None
        small = {node for node, taken in captured.leaf_types.items() if taken and _is_few(taken[0])}
        small.update(node for (node, nr), ref in captured.tensors.items() if not nr and _holds(ref))
        self._small = sorted(small)[:_MOST]
        self._large = sorted({node for node, taken in captured.leaf_types.items() if taken} - small)

    def follow(self, ended: Callable[[], None], begun: Callable[[], None] | None) -> None:
        """Set the callbacks, which are held weakly when they are bound methods."""
        self._ended = weakly(ended)
        self._begun = weakly(begun) if begun is not None else self._begun

    def begin(self) -> None:
        """Copy the gradients at the start of a pass."""
        self._began = self._copied()
        self._large_began = self._noted(with_norms=True)
        if (begun := self._begun()) is not None:
            begun()

    def end(self) -> None:
        """Copy the gradients at the end of a pass."""
        self._before, self._began = self._began, {}
        self._large_before, self._large_began = self._large_began, {}
        self._after = self._copied()
        self._large_after = self._noted(with_norms=False)
        self._held = {
            node: (weakref.ref(grad), version_of(grad))
            for node in self._after
            if (grad := self._grad(node)) is not None
        }
        if (ended := self._ended()) is not None:
            ended()

    def grown(self) -> list[GrownModel]:
        """The gradients that grew in the last completed pass."""
        before, after = _few(self._before), _few(self._after)
        grown = {node for node, held in after.items() if before.get(node) != held}
        large = {
            node: one
            for node, one in self._large_after.items()
            if (was := self._large_before.get(node)) is None or not was.is_now(one.ref())
        }
        there = {
            n: grad
            for n, one in large.items()
            if one.is_now(grad := one.ref()) and grad is not None
        }
        norms = _few(there)
        after |= {node: norms.get(node, one.few()) for node, one in large.items()}
        before |= {node: one.few() for node, one in self._large_before.items() if node in large}
        return [
            {**after[node], "node": node, "before": before.get(node), "changed": False, "now": None}
            for node in sorted(grown | large.keys())
        ]

    def held(self) -> list[HeldModel]:
        """The current gradients of the leaves that have one."""
        with unseen(), torch.no_grad():
            found = _few(dict(self._readable([*self._small, *self._large[:_MOST]])))
        return [{**few, "node": node} for node, few in found.items()]

    def changed(self) -> dict[int, torch.Tensor | None]:
        """The current ``.grad`` of leaves where it has changed since the last pass."""
        found: dict[int, torch.Tensor | None] = {}
        with unseen(), torch.no_grad():
            for node, (held, version) in self._held.items():
                grad = self._grad(node)
                if grad is None or grad is not held() or version_of(grad) != version:
                    found[node] = grad
                elif is_small(grad) and not same_values(grad, self._after[node]):
                    found[node] = grad  # changed through .data, which keeps the version
            for node, large in self._large_after.items():
                if not large.is_now(grad := self._grad(node)):
                    found[node] = grad
        return found

    def _copied(self) -> dict[int, torch.Tensor]:
        """Copies of small leaves' ``.grad``, on their devices to avoid synchronising."""
        with unseen(), torch.no_grad():
            return {node: grad.detach().clone() for node, grad in self._readable(self._small)}

    def _noted(self, *, with_norms: bool) -> dict[int, _Large]:
        """Note which tensors large leaves have as ``.grad``."""
        with unseen(), torch.no_grad():
            return {
                node: _Large(
                    weakref.ref(grad), version_of(grad), norm_of(grad) if with_norms else None
                )
                for node, grad in self._readable(self._large)
            }

    def _readable(self, nodes: Iterable[int]) -> Iterator[tuple[int, torch.Tensor]]:
        for node in nodes:
            grad = self._grad(node)
            if grad is not None and not why_unreadable(grad):
                yield node, grad

    def _grad(self, node: int) -> torch.Tensor | None:
        """The current ``.grad`` of a leaf or a tensor that retains it."""
        tensor = leaf_tensor(self._captured.nodes[node])
        if tensor is None and (known := self._captured.tensors.get((node, 0))) is not None:
            tensor = known()
            if tensor is not None and not tensor.retains_grad:
                return None
        return None if tensor is None else tensor.grad


def _few(grads: Mapping[int, torch.Tensor]) -> dict[int, FewModel]:
    with unseen(), torch.no_grad():
        return few_of({node: KeptGradient(grad) for node, grad in grads.items()})


def _is_few(shape: Sequence[int]) -> bool:
    # The sizes of jagged and traced tensors are not numbers.
    return all(type(size) is int for size in shape) and math.prod(shape) <= FEW


def _holds(reference: weakref.ref[torch.Tensor]) -> bool:
    """Whether a tensor is alive and small."""
    tensor = reference()
    with contextlib.suppress(Exception):  # nested tensors have no shape, tensor classes may raise
        return tensor is not None and _is_few(tensor.shape)
    return False


class LivePasses:
    """The passes through one graph since `follow` was called."""

    def __init__(
        self, captured: Capture, max_bytes: int, freed: Iterable[int] | None = None
    ) -> None:
        """Begin before the first pass. Without ``freed``, look which nodes have been freed."""
        if freed is None:
            freed = (i for i, node in enumerate(captured.nodes) if is_freed(node))
        self.freed = set(freed)  # ids of the nodes whose saved tensors are gone
        self.shown: RecordedPass | None = None  # the pass that is shown; None before any
        self._captured = captured
        self._max_bytes = max_bytes
        self._observer: Observer | None = None
        self._last: RecordedRun | None = None
        self._reported_compiled = False
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
        compiled = observer.compiled and not self._reported_compiled
        self._reported_compiled = observer.compiled
        if last is None or last is self._last or last.state == "running":
            return compiled
        before = 0 if self._last is None else self._last.number
        self._last = last
        nodes = self._captured.nodes
        if last.number != before + 1:  # several have ended, each of which may have freed tensors
            self.freed.update(i for i, node in enumerate(nodes) if is_freed(node))
        elif not last.keeps_graph:
            self.freed.update(i for i in last.steps if is_freed(nodes[i]))
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
            found = _few({node: grad for node, grad in changed.items() if grad is not None})
            now = {node: found.get(node) for node in changed}
        if now != self._now:
            self._now = now
            grads: list[GrownModel] = [
                {**grad, "changed": True, "now": now[grad["node"]]} if grad["node"] in now else grad
                for grad in self._model["grads"]
            ]
            self._latest = {**self._model, "grads": grads}
        return self._latest if now else self._model
