"""The gradients that leaves held after each pass, kept without keeping large ones alive."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

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


class _Held(NamedTuple):
    """A leaf's ``.grad`` at one moment."""

    ref: weakref.ref[torch.Tensor]  # the tensor
    version: int  # its version then
    copy: torch.Tensor | None  # of a small one, on its device to avoid synchronising
    norm: torch.Tensor | None  # the norm of a large one, if it was taken

    def is_now(self, grad: torch.Tensor | None) -> bool:
        """Whether a tensor is this one, not changed since."""
        return grad is not None and grad is self.ref() and version_of(grad) == self.version

    def values(self) -> torch.Tensor | None:
        """Its numbers then, if they are known."""
        if self.copy is not None or self.norm is not None:
            return self.copy
        now = self.ref()
        return now if self.is_now(now) else None


class StoredGrads:
    """Notes each leaf's ``.grad`` before and after each pass: small ones as copies."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        self._before: dict[int, _Held] = {}
        self._after: dict[int, _Held] = {}
        self._began: dict[int, _Held] = {}  # of a pass that has not ended yet
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
        """Note the gradients at the start of a pass."""
        self._began = self._noted(with_norms=True)
        if (begun := self._begun()) is not None:
            begun()

    def end(self) -> None:
        """Note the gradients at the end of a pass."""
        self._before, self._began = self._began, {}
        self._after = self._noted(with_norms=False)
        if (ended := self._ended()) is not None:
            ended()

    def grown(self) -> list[GrownModel]:
        """The gradients that grew in the last completed pass."""
        before, after = _models(self._before), _models(self._after)
        return [
            {**after[node], "node": node, "before": before.get(node), "changed": False, "now": None}
            for node, held in sorted(self._after.items())
            if (was := self._before.get(node)) is None
            or (not was.is_now(held.ref()) if held.copy is None else before[node] != after[node])
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
            for node, held in self._after.items():
                grad, copy = self._grad(node), held.copy
                # A change through .data keeps the version.
                is_same = (
                    copy is None or grad is None or not is_small(grad) or same_values(grad, copy)
                )
                if not (held.is_now(grad) and is_same):
                    found[node] = grad
        return found

    def _noted(self, *, with_norms: bool) -> dict[int, _Held]:
        found: dict[int, _Held] = {}
        with unseen(), torch.no_grad():
            for nodes in (self._small, self._large):
                for node, grad in self._readable(nodes):
                    copy = grad.detach().clone() if nodes is self._small else None
                    norm = norm_of(grad) if with_norms and copy is None else None
                    found[node] = _Held(weakref.ref(grad), version_of(grad), copy, norm)
        return found

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


def _models(held: Mapping[int, _Held]) -> dict[int, FewModel]:
    known = few_of_each({n: grad for n, one in held.items() if (grad := one.values()) is not None})
    return {
        node: known.get(node)
        or {"values": None, "norm": None if one.norm is None else json_number(float(one.norm))}
        for node, one in held.items()
    }


def few_of_each(grads: Mapping[int, torch.Tensor]) -> dict[int, FewModel]:
    """Return the norm, and the values of a small tensor, of each."""
    with unseen(), torch.no_grad():
        return few_of({node: KeptGradient(grad) for node, grad in grads.items()})


def _is_few(shape: Sequence[int]) -> bool:
    # The sizes of jagged and traced tensors are not numbers.
    return all(type(size) is int for size in shape) and math.prod(shape) <= FEW


def _holds(reference: weakref.ref[torch.Tensor]) -> bool:
    tensor = reference()
    with contextlib.suppress(Exception):  # nested tensors have no shape, tensor classes may raise
        return tensor is not None and _is_few(tensor.shape)
    return False
