"""What torch's engine does, seen by hooks of the tests' own: the truth for recordings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from gradwalk.torch_api.nodes import is_accumulate_grad

Values = Tensor | None


@dataclass
class Ran:
    """One node's backward: what came, what went on, and every leaf's ``.grad`` afterwards."""

    task: int
    node: Any
    grad_outputs: list[Values]
    grad_inputs: list[Values]
    leaf_grads: list[Values]


class EngineLog:
    """Logs a backward pass through some outputs, until ``remove``."""

    def __init__(self, outputs: Iterable[Tensor]) -> None:
        self.logged: list[Ran] = []
        self.nodes = nodes_behind(outputs)
        self.leaves = [node.variable for node in self.nodes if hasattr(node, "variable")]
        self.handles = [node.register_hook(self._hook(node)) for node in self.nodes]

    def _hook(self, node):
        def log(grad_inputs, grad_outputs):
            task = torch._C._current_graph_task_id()
            ran = copies(grad_outputs), copies(grad_inputs), self.leaf_grads()
            self.logged.append(Ran(task, node, *ran))

        return log

    @property
    def ran(self) -> list[Ran]:
        """What ran, without the backward passes that nodes ran within their own (checkpoint)."""
        return [ran for ran in self.logged if ran.task == self.logged[-1].task]

    def leaf_grads(self) -> list[Values]:
        return copies(leaf.grad for leaf in self.leaves)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def nodes_behind(outputs: Iterable[Tensor]) -> list[Any]:
    """Every node that gradients of some outputs can reach, breadth-first."""
    found = dict.fromkeys(get_gradient_edge(output).node for output in outputs)
    order = list(found)
    for node in order:
        for child, _ in node.next_functions:
            if child is not None and child not in found:
                found[child] = None
                order.append(child)
    return order


def operations_behind(*outputs: Tensor) -> list[Any]:
    """The same without the leaves."""
    nodes = nodes_behind(output for output in outputs if output.requires_grad)
    return [node for node in nodes if not is_accumulate_grad(node)]


def copies(tensors: Iterable[Values]) -> list[Values]:
    return [None if tensor is None else tensor.detach().clone() for tensor in tensors]


def same(a: Values, b: Values) -> bool:
    """Bit for bit, NaN equal to NaN; shapes only where there are no values."""
    if a is None or b is None:
        return a is b
    if a.is_nested:
        return all(map(same, a.unbind(), b.unbind()))
    if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
        return False
    if a.device.type == "meta":
        return True
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.dtype.itemsize == 1:
        a, b = a.double(), b.double()
    return torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def all_same(left: Iterable[Values], right: Iterable[Values]) -> bool:
    return all(same(a, b) for a, b in zip(left, right, strict=True))


def check_is_the_engines(log, recording):
    """Order, gradients and every intermediate `.grad`, forwards and back."""
    nodes = recording._pass.captured.nodes
    assert [nodes[step.node] for step in recording.steps] == [ran.node for ran in log.ran]
    for step, ran in zip(recording.steps, log.ran, strict=True):
        assert all_same(step.grad_outputs, ran.grad_outputs)
        assert all_same(step.grad_inputs, ran.grad_inputs)
    if any(leaf.is_nested for leaf in log.leaves):
        assert "a nested tensor" in recording.note
        return
    for k in [*reversed(range(1, len(log.ran) + 1)), *range(1, len(log.ran) + 1)]:
        recording.cursor = k
        assert all_same([leaf.grad for leaf in log.leaves], log.ran[k - 1].leaf_grads), k
