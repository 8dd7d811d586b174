"""Programs for the laboratory, and the same program run with `detach()` or a hook at one use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from architectures import ARCHITECTURES
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

Program = Callable[[], tuple[list[Tensor], list[Tensor]]]
"""Gives outputs of one number each, and the leaves; the same ones each time."""

Edge = tuple[Node, int]


class Uses(TorchFunctionMode):
    """Counts the uses of tensors by calls; changes one of them.

    Attributes:
        edges: Per use that needs grad, the (node, arg_nr) by which its gradient flows.
    """

    def __init__(self, change: int | None = None, by: Callable[[Tensor], Tensor] | None = None):
        super().__init__()
        self.edges: list[list[Edge]] = []
        self.change, self.by = change, by
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in {"__get__", "__set__", "backward"}:
            return func(*args, **kwargs)
        used: list[Tensor] = []

        def meet(value: Any) -> Any:
            if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
                return type(value)([meet(each) for each in value])
            if isinstance(value, Tensor) and value.requires_grad:
                with torch._C.DisableTorchFunction():
                    if self.count == self.change:
                        value = self.by(value)
                    self.count += 1
                    used.append(value)
            return value

        args = tuple(meet(each) for each in args)
        kwargs = {key: meet(each) for key, each in kwargs.items()}
        with torch._C.DisableTorchFunction():
            sources = [tuple(get_gradient_edge(t)) if t.requires_grad else None for t in used]
        before = torch.autograd._get_sequence_nr()
        result = func(*args, **kwargs)
        if used:
            made = nodes_made(result, before)
            self.edges += [edges_into(made, source) for source in once_each(sources)]
        return result


def once_each(sources: list[Any]) -> list[Any]:
    """A tensor that a call takes twice cannot be told apart: such uses have no edges."""
    return [source if sources.count(source) == 1 else None for source in sources]


def nodes_made(result: Any, since: int) -> list[Node]:
    """The autograd nodes that a call has made."""
    given = list(result) if isinstance(result, (list, tuple)) else [result]
    waiting = [t.grad_fn for t in given if isinstance(t, Tensor) and t.grad_fn is not None]
    found: dict[Node, None] = {}
    while waiting:
        node = waiting.pop()
        if node not in found and since <= node._sequence_nr() < 2**62:
            found[node] = None
            waiting += [child for child, _ in node.next_functions if child is not None]
    return list(found)


def edges_into(made: list[Node], source: Any) -> list[Edge]:
    return [
        (node, nr)
        for node in made
        for nr, each in enumerate(node.next_functions)
        if source is not None and each[0] is source[0] and each[1] == source[1]
    ]


def ids_of(output: list[Tensor]) -> dict[Node, int]:
    """Nodes as `gradwalk.capture` numbers them, worked out here: breadth-first."""
    order = list(dict.fromkeys(get_gradient_edge(each).node for each in output))
    ids = {node: i for i, node in enumerate(order)}
    for node in order:
        for child, _ in node.next_functions:
            if child is not None and child not in ids:
                ids[child] = len(order)
                order.append(child)
    return ids


def gradients(outputs: list[Tensor], leaves: list[Tensor]) -> list[Tensor | None]:
    """What torch gives, None where nothing arrives."""
    outputs = [each for each in outputs if each.requires_grad]
    if not outputs:
        return [None] * len(leaves)
    return list(torch.autograd.grad(outputs, leaves, allow_unused=True))


def same(ours: Any, torchs: list[Tensor | None]) -> None:
    """Fails unless gradients are bit for bit the same, NaN where there is NaN."""
    for a, b in zip(list(ours), torchs, strict=True):
        assert (a is None) == (b is None), (a, b)
        if a is not None:
            assert a.dtype == b.dtype
            assert torch.allclose(a, b, rtol=0, atol=0, equal_nan=True), (a - b).abs().max()


def random_program(seed: int) -> Program:
    """A program of some twenty operations on small matrices, drawn anew for each seed."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    leaves = [torch.randn(3, 3, generator=generator, requires_grad=True) for _ in range(4)]
    data = torch.randn(3, 3, generator=generator)
    two: list[Callable[[Tensor, Tensor], Tensor]] = [
        torch.add, torch.sub, torch.mul, torch.mm, torch.atan2, torch.maximum,
        lambda a, b: torch.cat([a, b])[1:4],
        lambda a, b: a + b[0],
        lambda a, b: torch.stack([a, b], 2).sum(2),
        lambda a, b: torch.where(data > 0, a, b),
        lambda a, b: F.linear(a, b, b[0]),
        lambda a, b: a * b.mean() + data,
        lambda a, b: torch.baddbmm(a[None], a[None], b[None])[0],
    ]  # fmt: skip
    one: list[Callable[[Tensor], Tensor]] = [
        torch.tanh, torch.sigmoid, torch.relu, torch.t,
        lambda a: a.softmax(1), lambda a: a.reshape(9).view(3, 3), lambda a: a * 2,
        lambda a: F.layer_norm(a, (3,)), lambda a: a.index_select(0, torch.tensor([0, 0, 2])),
        lambda a: a.unbind()[1].expand(3, 3),
    ]  # fmt: skip
    plan = []
    for made in range(20):
        takes = draw.choice([1, 2, 2])
        known = 4 + made
        # Recent values more often, so that programs are deep, old ones too, so that sums are wide.
        from_where = [max(draw.randrange(known), draw.randrange(known)) for _ in range(takes)]
        plan.append((draw.choice(one if takes == 1 else two), from_where))

    def program() -> tuple[list[Tensor], list[Tensor]]:
        values = list(leaves)
        for function, taken in plan:
            values.append(function(*(values[i] for i in taken)))
        return [sum(values[-6:]).sum()], leaves

    return program


def of_model(name: str) -> Program:
    net, given = ARCHITECTURES[name]()
    leaves = [each for each in net.parameters() if each.requires_grad]

    def program() -> tuple[list[Tensor], list[Tensor]]:
        torch.manual_seed(1)
        outputs = net(*given)
        first = outputs[0] if isinstance(outputs, tuple) else outputs
        return [first.square().mean()], leaves

    return program


def gan() -> Program:
    """A generator and a discriminator with a loss each; both losses reach both."""
    torch.manual_seed(0)
    make = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    judge = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    noise, real = torch.randn(6, 4), torch.randn(6, 3)

    def program() -> tuple[list[Tensor], list[Tensor]]:
        made = make(noise)
        fooled = F.binary_cross_entropy_with_logits(judge(made), torch.ones(6, 1))
        caught = F.binary_cross_entropy_with_logits(judge(made), torch.zeros(6, 1))
        known = F.binary_cross_entropy_with_logits(judge(real), torch.ones(6, 1))
        return [fooled, caught + known], [*make.parameters(), *judge.parameters()]

    return program


def programs() -> Iterator[tuple[str, Program, int]]:
    """(name, program, how many cuts to try): 500 in all."""
    for seed in range(30):
        yield f"random {seed}", random_program(seed), 14
    for name in ("lenet", "resnet", "transformer_encoder", "lstm"):
        yield name, of_model(name), 16
    yield "gan", gan(), 16
