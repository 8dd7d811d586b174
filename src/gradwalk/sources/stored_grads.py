"""The ``.grad`` of small leaves around passes that the program runs itself.

`gradwalk.backward.grad_timeline` records every moment of gradwalk's own passes. Of other passes,
this module copies ``.grad`` before and right afterwards, because ``zero_grad()`` may come next.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..backward.grad_timeline import is_small, same_values
from ..backward.kept_gradients import KeptGradient
from ..backward.observe import weakly
from ..graph.capture import Capture
from ..schema.backward import GrownModel, HeldModel, RunModel
from ..torch_api.modes import unseen
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import why_unreadable
from ..torch_api.tensors import version_of
from .graph_model import FEW, few_of

_MOST = 1_000  # leaves, and tensors that may retain their gradient


class StoredGrads:
    """Copies the ``.grad`` of small leaves before and after each pass, and reports it."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        self._before: dict[int, torch.Tensor] = {}
        self._after: dict[int, torch.Tensor] = {}
        self._held: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}  # right after it
        self._began: dict[int, torch.Tensor] = {}  # of a pass that has not ended yet
        self._begun: Callable[[], Callable[[], None] | None] = lambda: None
        self._ended: Callable[[], Callable[[], None] | None] = lambda: None
        small = {node for node, taken in captured.taken.items() if taken and _is_few(taken[0])}
        small.update(node for (node, nr), ref in captured.tensors.items() if not nr and _holds(ref))
        self._small = sorted(small)[:_MOST]

    def tell(self, ended: Callable[[], None], begun: Callable[[], None] | None) -> None:
        """Set the callbacks.

        Args:
            ended: Called when a pass has ended. Held weakly when it is a bound method.
            begun: Called when a pass has begun. Held likewise.
        """
        self._ended = weakly(ended)
        self._begun = weakly(begun) if begun is not None else self._begun

    def begin(self) -> None:
        """Copy the gradients at the start of a pass."""
        self._began = self._copied()
        _call(self._begun())

    def end(self) -> None:
        """Copy the gradients at the end of a pass."""
        self._before, self._began = self._began, {}
        self._after = self._copied()
        self._held = {
            node: (weakref.ref(grad), version_of(grad))
            for node in self._after
            if (grad := self._grad(node)) is not None
        }
        _call(self._ended())

    def grown(self) -> list[GrownModel]:
        """The gradients that grew in the last completed pass."""
        with unseen():
            before, after = (
                few_of({node: KeptGradient(grad) for node, grad in grads.items()})
                for grads in (self._before, self._after)
            )
        return [
            {**held, "node": node, "before": before.get(node), "changed": False, "now": None}
            for node, held in after.items()
            if before.get(node) != held
        ]

    def held(self) -> list[HeldModel]:
        """The current gradients of the leaves that have one."""
        with unseen(), torch.no_grad():
            found = few_of({node: KeptGradient(grad) for node, grad in self._readable()})
        return [{**few, "node": node} for node, few in found.items()]

    def touched(self) -> dict[int, torch.Tensor | None]:
        """The current ``.grad`` of leaves where it has changed since the last pass."""
        found: dict[int, torch.Tensor | None] = {}
        with unseen(), torch.no_grad():
            for node, (held, version) in self._held.items():
                grad = self._grad(node)
                if grad is None or grad is not held() or version_of(grad) != version:
                    found[node] = grad
                elif is_small(grad) and not same_values(grad, self._after[node]):
                    found[node] = grad  # changed through .data, which keeps the version
        return found

    def _copied(self) -> dict[int, torch.Tensor]:
        """Copies of small leaves' ``.grad``, on their devices to avoid synchronising."""
        with unseen(), torch.no_grad():
            return {node: grad.detach().clone() for node, grad in self._readable()}

    def _readable(self) -> Iterator[tuple[int, torch.Tensor]]:
        for node in self._small:
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


class Since:
    """Adds the ``.grad`` that have changed since a pass to the model of the run."""

    def __init__(self) -> None:
        self._told: tuple[RunModel | None, dict[int, Any], RunModel | None]
        self._told = None, {}, None

    def told(self, model: RunModel, touched: Mapping[int, torch.Tensor | None]) -> RunModel:
        """Add the changed gradients to a run.

        Args:
            model: The run.
            touched: The current value of each changed ``.grad``, by node.

        Returns:
            ``model`` itself where nothing was; the same object as long as nothing else is.
        """
        if not touched:
            return model
        with unseen(), torch.no_grad():
            now = few_of(
                {node: KeptGradient(grad) for node, grad in touched.items() if grad is not None}
            )
        key = {node: now.get(node) for node in touched}
        if self._told[0] is not model or self._told[1] != key or self._told[2] is None:
            grads: list[GrownModel] = [
                {**one, "changed": True, "now": now.get(one["node"])}
                if one["node"] in touched
                else one
                for one in model["grads"]
            ]
            self._told = model, key, {**model, "grads": grads}
        assert self._told[2] is not None
        return self._told[2]


def _is_few(shape: Sequence[int]) -> bool:
    # The sizes of jagged and traced tensors are not numbers.
    return all(type(size) is int for size in shape) and math.prod(shape) <= FEW


def _holds(reference: weakref.ref[torch.Tensor]) -> bool:
    """Whether a tensor is alive and small."""
    tensor = reference()
    with contextlib.suppress(Exception):  # nested tensors have no shape, tensor classes may raise
        return tensor is not None and _is_few(tensor.shape)
    return False


def _call(told: Callable[[], None] | None) -> None:
    if told is not None:
        told()
