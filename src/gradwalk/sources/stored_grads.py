"""The gradients that leaves held after each pass, kept without keeping large ones alive."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..backward.kept_gradients import KeptGradient, norm_of
from ..backward.leaf_grads import is_small, same_values
from ..backward.observe import weakly
from ..graph.capture import Capture
from ..schema.backward import FewModel, GrownModel, HeldModel
from ..schema.json_values import json_number
from ..torch_api.modes import unseen
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import version_of, why_unreadable
from .graph_model import FEW, few_of

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
        before, after = few_of_each(self._before), few_of_each(self._after)
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
        norms = few_of_each(there)
        after |= {node: norms.get(node, one.few()) for node, one in large.items()}
        before |= {node: one.few() for node, one in self._large_before.items() if node in large}
        return [
            {**after[node], "node": node, "before": before.get(node), "changed": False, "now": None}
            for node in sorted(grown | large.keys())
        ]

    def held(self) -> list[HeldModel]:
        """The current gradients of the leaves that have one."""
        with unseen(), torch.no_grad():
            found = few_of_each(dict(self._readable([*self._small, *self._large[:_MOST]])))
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


def few_of_each(grads: Mapping[int, torch.Tensor]) -> dict[int, FewModel]:
    """Return the numbers of small gradients, and the norms of the others."""
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
