"""Rules that say when an operation blocks every gradient, judged by its saved tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.autograd.graph import Node

from ..graph.adjacency import walk
from ..graph.capture import Capture
from ..graph.labels import is_pass_through
from ..lazily import nx
from ..torch_api.nodes import keeps_tensors, knows_saved, leaf_tensor, node_class, op_name
from ..torch_api.reading import PART, everywhere, why_unreadable
from ..torch_api.saved_tensors import plain_value, read_saved, signed

Saved = dict[str, Any]
Why = tuple[str, str] | tuple[str, str, str | None]
Rule = Callable[[str | None, Saved], Why | None]


def blocked(node: Node, argument: str | None, saved: Saved) -> Why | None:
    """Say why an operation passes only zeros to an input, as in `Block`; None if unknown."""
    name = op_name(node)
    if name in FLAT:
        return _STEPS
    if name in _DRAWN:
        return "its result is drawn at random, and torch has no derivative for that", (
            "draw numbers that do not depend on parameters and transform them, as rsample() "
            "does, or use gumbel_softmax()"
        )
    if name in _OVERWRITTEN and argument in ("self", None):
        return "it wrote other values over its input", "write into a new tensor"
    rule = _RULES.get(name)
    try:
        return rule(argument, saved) if rule is not None and saved else None
    except Exception:  # what it saved is packed, sparse, of a class that refuses to compare, ...
        return None


_STEPS = (
    "its result is the same for inputs that differ a little",
    "use a function with a slope, or a straight-through estimator",
)
FLAT = frozenset(
    f"{name}Backward0" for name in ("Sign", "Floor", "Ceil", "Round", "Trunc", "Heaviside")
)
"""Operations whose derivative is zero wherever they have one."""


def _numbered(**numbers: str) -> frozenset[str]:
    return frozenset(f"{name}Backward{digit}" for name, each in numbers.items() for digit in each)


_DRAWN = _numbered(Bernoulli="0", Poisson="0", Normal="123")
_OVERWRITTEN = _numbered(
    Zero="0", Uniform="0", Exponential="0", Normal="0", Cauchy="0", Geometric="0", LogNormal="0"
) | _numbered(Random="012", Bernoulli="12", Fill="0123")


_SCALE = "check the scale of its input"
_RANGE = "its input lies everywhere outside of its range"


def _flat(
    name: str,
    test: Callable[[torch.Tensor, Saved], torch.Tensor],
    because: str,
    remedy: str = _SCALE,
    argument: str | None = None,
) -> Rule:
    """Make the rule for an operation that blocks where a saved tensor passes a test everywhere."""

    def rule(asked: str | None, saved: Saved) -> Why | None:
        if argument not in (None, asked):
            return None
        if not everywhere(saved[name], lambda part: test(part, saved)):
            return None
        return because.format_map(saved), remedy

    return rule


def _clamp(_: str | None, saved: Saved) -> Why | None:
    low = -math.inf if saved.get("min") is None else saved["min"]
    high = math.inf if saved.get("max") is None else saved["max"]
    value = saved["self"]
    limits = [limit for limit in (low, high) if isinstance(limit, torch.Tensor)]
    if limits:  # of their own for each number
        if any(each.numel() > PART for each in (value, *limits)):
            return None
        blocked = everywhere((value < low) | (value > high), lambda outside: outside)
    else:
        blocked = everywhere(value, lambda part: (part < low) | (part > high))
    return _outside(saved.get("min"), saved.get("max")) if blocked else None


def _outside(low: Any, high: Any) -> tuple[str, str]:
    ends = (("from", low), ("to", high))
    limits = [f" {word} {end:g}" for word, end in ends if isinstance(end, (int, float))]
    return f"{_RANGE}{''.join(limits)}", _SCALE


def _where(argument: str | None, saved: Saved) -> Why | None:
    if argument not in ("self", "other"):
        return None
    taken = argument == "self"
    if not everywhere(saved["condition"], lambda condition: condition != taken):
        return None
    return f"its condition selects nothing of {argument}", "check the condition"


def _product(one: str, other: str) -> Rule:
    """Make the rule for a product: the gradient of one factor is multiplied by the other."""

    def rule(argument: str | None, saved: Saved) -> Why | None:
        factor = {one: other, other: one}.get(argument or "")
        if factor is None or not everywhere(saved[factor], lambda value: value == 0):
            return None
        return (
            f"its other factor ({factor}) is zero everywhere",
            "check the mask or the operation that made those zeros",
            factor,
        )

    return rule


def _scaled(argument: str | None, saved: Saved) -> Why | None:
    """Judge a normalisation, which multiplies its input's gradient by its weight."""
    if argument != "input":
        return None
    if _is_of_single_numbers(saved):
        return "it normalises each number by itself, so its result is always its bias", (
            "normalise over more than one number"
        )
    if not everywhere(saved["weight"], lambda value: value == 0):
        return None
    return "its weight is zero everywhere", "start from another weight than 0", "weight"


def _is_of_single_numbers(saved: Saved) -> bool:
    if "normalized_shape" in saved:
        return math.prod(saved["normalized_shape"]) == 1
    if "group" in saved:
        return bool(saved["C"] * saved["HxW"] == saved["group"])
    return False


def _of_one_class(_: str | None, saved: Saved) -> Why | None:
    """Judge a softmax, which gives 1 over a single number."""
    result, dim = saved["result"], saved["dim"]
    if not result.dim() or result.shape[dim] != 1:
        return None
    return "it is taken over a dimension of one number, so its result never changes", (
        "take another dimension, or for a single output a sigmoid"
    )


def _greater(sign: int) -> Rule:
    """Make the rule for the greater of two tensors, or with -1 for the smaller."""

    def rule(argument: str | None, saved: Saved) -> Why | None:
        if argument not in ("self", "other") or saved["self"].numel() > PART:
            return None
        one, two = saved["self"], saved["other"]
        ahead = sign * (two - one) if argument == "self" else sign * (one - two)
        if not everywhere(ahead, lambda part: part > 0):
            return None
        return f"it takes nothing of {argument}", "check the scale of both"

    return rule


def _is_outside(low: str | float, high: str | float) -> Rule:
    """Make the rule for a function that is flat below one number and above another."""

    def test(value: torch.Tensor, saved: Saved) -> torch.Tensor:
        least, most = (saved[each] if isinstance(each, str) else each for each in (low, high))
        return (value <= least) | (value >= most)

    ends = [f"{{{each}:g}}" if isinstance(each, str) else f"{each:g}" for each in (low, high)]
    return _flat("self", test, f"{_RANGE} from {ends[0]} to {ends[1]}")


_SATURATED = "it is saturated: its result is everywhere exactly"
_SHRUNK = _flat(
    "self",
    lambda value, saved: value.abs() <= saved["lambd"],
    "its input lies everywhere from -{lambd:g} to {lambd:g}, which it makes 0",
)
_NO_LABELS = _flat(
    "target",
    lambda label, saved: label == saved["ignore_index"],
    "every label is {ignore_index}, its ignore_index",
    "check the labels",
)
_AT_ZERO = (
    lambda value, _: value == 0,
    "all its input is exactly 0, where torch takes 0 for its slope",
    "check why its input is zero",
)


def _rounded(_: str | None, saved: Saved) -> Why | None:
    return _STEPS if saved.get("rounding_mode") is not None else None


_PRODUCTS: dict[str, Rule] = {
    "MulBackward0": _product("self", "other"),
    "MmBackward0": _product("self", "mat2"),
    "BmmBackward0": _product("self", "mat2"),
    "AddmmBackward0": _product("mat1", "mat2"),
    "MvBackward0": _product("self", "vec"),
    "DotBackward0": _product("self", "tensor"),
    "ConvolutionBackward0": _product("input", "weight"),
    **dict.fromkeys((f"{kind}BatchNormBackward0" for kind in ("Native", "Cudnn")), _scaled),
    **dict.fromkeys((f"Native{kind}NormBackward0" for kind in ("Layer", "Group")), _scaled),
}
"""Operations that multiply a gradient by a tensor, which blocks it if it is zero."""


_RULES: dict[str, Rule] = {
    **_PRODUCTS,
    "ReluBackward0": _flat(
        "result",
        lambda result, _: result <= 0,
        "a ReLU whose input is nowhere above 0",
        "check the initialisation and the learning rate, or use a leaky ReLU",
    ),
    "ThresholdBackward0": _flat(
        "self",
        lambda value, saved: value <= saved["threshold"],
        "its input is nowhere above its threshold, {threshold:g}",
    ),
    "HardtanhBackward0": _is_outside("min_val", "max_val"),
    "HardsigmoidBackward0": _is_outside(-3, 3),
    **dict.fromkeys(("ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0"), _clamp),
    "SigmoidBackward0": _flat(
        "result", lambda result, _: (result == 0) | (result == 1), f"{_SATURATED} 0 or 1"
    ),
    "TanhBackward0": _flat("result", lambda result, _: result.abs() == 1, f"{_SATURATED} -1 or 1"),
    "MaskedFillBackward0": _flat(
        "mask", lambda mask, _: mask, "its mask covers everything", "check the mask", "self"
    ),
    "WhereBackward0": _where,
    "PowBackward0": _flat(
        "self",
        lambda value, saved: (value == 0) & (saved["exponent"] > 1),
        "the slope of a power of {exponent:g} is zero at 0",
        "start from another value than 0",
    ),
    **dict.fromkeys(("SoftmaxBackward0", "LogSoftmaxBackward0"), _of_one_class),
    "EmbeddingBackward0": _flat(
        "indices",
        lambda index, saved: (index == saved["padding_idx"]) & (index >= 0),
        "every index is {padding_idx}, its padding_idx, whose row gets no gradient",
        "check the indices",
    ),
    **dict.fromkeys(("NllLossBackward0", "NllLoss2DBackward0"), _NO_LABELS),
    **dict.fromkeys(("DivBackward2", "DivBackward3"), _rounded),
    "SgnBackward0": lambda _, saved: None if saved["self"].is_complex() else _STEPS,
    "AbsBackward0": _flat("self", *_AT_ZERO),
    "LinalgVectorNormBackward0": _flat("result", *_AT_ZERO),
    **dict.fromkeys(("SoftshrinkBackward0", "HardshrinkBackward0"), _SHRUNK),
    "MaximumBackward0": _greater(1),
    "MinimumBackward0": _greater(-1),
}


@dataclass(frozen=True)
class Block:
    """An operation that turns every gradient into zeros on its way to one or all of its inputs."""

    node: int  # the node's id
    because: str  # the reason, as a clause: "its input is nowhere above 0"
    remedy: str  # what to do
    factor: str | None = None  # the argument whose zeros block, if any


@dataclass(frozen=True)
class Blocks:
    """The operations that block gradients on the way to one node."""

    # The operations that block the ways to it, nearest to the outputs first; only when they block
    # every way, else empty. At most `_MOST_KEPT`.
    found: list[Block]
    # Whether saved tensors on the way are freed or cannot be read, so that an operation may block.
    unknown: bool
    is_more: bool = False  # whether further operations block, which ``found`` leaves out


@dataclass(frozen=True)
class BlockedLeaves:
    """The operations that block gradients on the way to several nodes."""

    # Operations that block, each with the nodes behind it that no open way reaches. Each node is
    # listed once.
    by_block: list[tuple[Block, list[int]]]
    rest: list[int]  # the nodes that an open way reaches, as far as known
    unknown: bool  # as for `Blocks`, for the rest


_MOST_KEPT = 64  # blocks that are kept for one node


class Blocking:
    """Where operations block gradients, by their saved tensors of now: one walk for all nodes."""

    def __init__(self, captured: Capture) -> None:
        self._captured = captured
        graph, following = captured.graph, captured.successors
        waiting = list(dict.fromkeys(root for root, _ in graph.graph["roots"]))
        self._reached = reached = set(waiting)
        stopped: list[tuple[Block, int]] = []
        self._unread: list[int] = []  # nodes reached whose saved tensors cannot all be read
        for node in waiting:  # grows while we walk
            inputs = following[node]
            saved, complete = _saved(captured.nodes[node]) if inputs else ({}, True)
            leaves = {} if complete else _leaves_of_product(captured, node)
            if not complete:
                self._unread.append(node)
            for target, edges in inputs.items():
                for edge in edges.values():
                    why = blocked(captured.nodes[node], edge["argument"], {**leaves, **saved})
                    if why is not None:
                        block = Block(node, *why)
                        if block.factor in leaves and block.factor not in saved:
                            # Its value in backward is not known.
                            block = replace(block, because=f"{block.because} now")
                        stopped.append((block, target))
                    elif target not in reached:
                        reached.add(target)
                        waiting.append(target)
        # What blocks the last open nodes before nodes that no open way reaches.
        self._stopped = [(block, target) for block, target in stopped if target not in reached]

    def before(self, target: int) -> Blocks:
        """Find why only zeros can arrive at a node."""
        unknown = target in self._behind_unread
        if target in self._reached:
            return Blocks([], unknown)
        numbers = self._numbers.get(target, ())
        found: dict[int, Block] = {}
        for number in numbers[:_MOST_KEPT]:
            block, _ = self._stopped[number]
            found.setdefault(block.node, block)
        return Blocks(list(found.values()), unknown, len(numbers) > _MOST_KEPT)

    @functools.cached_property
    def _behind_unread(self) -> set[int]:
        """The nodes behind one that is reached and cannot be read."""
        following = self._captured.successors
        starts = (each for node in self._unread for each in following[node])
        return set(walk(starts, following.__getitem__))

    @functools.cached_property
    def _numbers(self) -> dict[int, Sequence[int]]:
        """By node that is not reached: the first places in ``_stopped`` of what blocks it."""
        following, reached = self._captured.successors, self._reached
        own: dict[int, list[int]] = {}
        for number, (_, target) in enumerate(self._stopped):
            own.setdefault(target, []).append(number)
        closed = list(walk(own, lambda i: [each for each in following[i] if each not in reached]))
        missing = dict.fromkeys(closed, 0)  # how many nodes before each are not finished
        for node in closed:
            for target in following[node]:
                if target in missing:
                    missing[target] += 1
        came: dict[int, list[Sequence[int]]] = {node: [own[node]] for node in own}
        found: dict[int, Sequence[int]] = {}
        ready = [node for node in closed if not missing[node]]
        for node in ready:  # grows while we walk
            # Most nodes have the same blocks as the one before: they share them.
            different = {id(each): each for each in came.pop(node)}
            first, *others = different.values()
            if others:
                first = sorted(set(first).union(*others))
            found[node] = first = first[: _MOST_KEPT + 1] if len(first) > _MOST_KEPT + 1 else first
            for target in following[node]:
                if target in missing:
                    came.setdefault(target, []).append(first)
                    missing[target] -= 1
                    if not missing[target]:
                        ready.append(target)
        return found

    def leaves(self, targets: list[int]) -> BlockedLeaves:
        """Find why only zeros can arrive at some nodes, each listed with one block."""
        following, reached = self._captured.successors, self._reached
        behind: dict[int, list[int]] = {}
        blocks: dict[int, Block] = {}
        sought, seen = set(targets) - reached, set(reached)
        for block, start in self._stopped:
            if start in seen:
                continue
            seen.add(start)
            beyond = [start]
            for node in beyond:  # grows while we walk
                if node in sought:
                    blocks.setdefault(block.node, block)
                    behind.setdefault(block.node, []).append(node)
                new = [each for each in following[node] if each not in seen]
                seen.update(new)
                beyond += new
        found = [(blocks[node], leaves) for node, leaves in behind.items()]
        rest = [node for node in targets if node in reached]
        return BlockedLeaves(found, rest, bool(self._unread))


_ADDED_UP = frozenset(
    f"{name}Backward{number}"
    for name in ("Mean", "Sum", "Add", "Mul", "Div", "Neg", "Pow", "Stack", "Cat")
    for number in (0, 1)
)
_FLOORS = ("ReluBackward0", "ClampMinBackward0", "ThresholdBackward0", "ClampBackward1")


_PICKS = _numbered(Embedding="0", Index="0", IndexSelect="0", Gather="0")


def factors_of(captured: Capture, block: Block) -> list[int]:
    """Return the nodes, beyond plumbing, that gave the zeros that block."""
    graph = captured.graph
    return [
        _behind(graph, child, _PICKS)
        for _, child, edge in graph.out_edges(block.node, data=True)
        if block.factor is not None and edge["argument"] == block.factor
    ]


def _behind(graph: nx.MultiDiGraph, node: int, also: Collection[str] = ()) -> int:
    """Return the first node behind plumbing, or behind other operations that are passed over."""
    while len(graph.succ[node]) == 1 and (
        is_pass_through(op := graph.nodes[node]["op"]) or op in also
    ):
        node = next(iter(graph.succ[node]))
    return node


def _leaves_of_product(captured: Capture, node: int) -> Saved:
    """Return the leaves among a product's factors: they are there when saved tensors are freed."""
    if op_name(captured.nodes[node]) not in _PRODUCTS:
        return {}
    found = {}
    for _, child, edge in captured.graph.out_edges(node, data=True):
        leaf = leaf_tensor(captured.nodes[_behind(captured.graph, child)])
        if leaf is not None and why_unreadable(leaf) is None:
            found[edge["argument"]] = leaf
    return found


def margins(captured: Capture) -> set[int]:
    """Return the nodes that clamp margins in a loss: every margin is kept if one blocks.

    Their results are only added up: nothing that follows scales with a parameter or bends.
    """
    if not knows_saved():
        return set()
    data, following = captured.attributes, captured.successors
    others = (
        node
        for node, each in data.items()
        if not (each["op"] in _ADDED_UP or is_pass_through(each["op"]))
        or any(data[child]["kind"] == "leaf" for child in following[node])
    )
    below_others = set(
        walk((each for node in others for each in following[node]), following.__getitem__)
    )
    return {
        node
        for node, each in data.items()
        if each["op"] in _FLOORS
        and node not in below_others
        and plain_value(captured.nodes[node], "max") is None
    }


def _saved(node: Node) -> tuple[Saved, bool]:
    """Return the saved tensors of a node that can be read, and whether these are all."""
    if not keeps_tensors(type(node)) or node_class(type(node)).is_function:
        return {}, True
    saved = list(read_saved(node))
    values = {each.name: signed(each.value) for each in saved if _is_there(each.value)}
    return values, len(values) == len(saved)


def _is_there(value: Any) -> bool:
    """Return whether a saved value can be read: not freed, not packed, its memory in place."""
    if isinstance(value, torch.Tensor):
        return why_unreadable(value) is None
    return value is not None
