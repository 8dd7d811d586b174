"""The steps of a forward's code, and the operations that they made."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...graph.labels import without_backward
from ...graph.names import common_ancestor

_VIEW = "View UnsafeView ReshapeAlias Clone Alias"
_MATMUL = f"{_VIEW} Expand Bmm Mm Mv Dot Squeeze Unsqueeze Transpose T Permute Addmm"

# Functions that are not called as the nodes that they make: names -> nodes.
_TABLE = {
    "+": "Add",
    "- sub": "Sub Rsub",
    "* feature_dropout": "Mul",
    "/": "Div Reciprocal Mul",
    "@ matmul tensordot inner rearrange": f"{_MATMUL}",
    "** square": "Pow",
    "%": "Remainder",
    "//": "Div Floor",
    "einsum": f"{_MATMUL} Sum Mul Diagonal",
    "linear": "T Addmm Mm Linear MkldnnLinear",
    "bilinear": f"Bilinear {_MATMUL}",
    "addmm": "Addmm T",
    "outer": f"Mul {_VIEW}",
    "reshape flatten unflatten view_as reshape_as ravel": f"{_VIEW}",
    "view": "View UnsafeView ViewAs",
    "contiguous": "Clone",
    "chunk": "Split",
    "tensor_split": "Slice Split",
    "unpack": "Unbind",
    "getitem": "Select Slice Index Unsqueeze Alias",
    "setitem": "CopySlices IndexPut IndexFill MaskedFill AsStrided Slice Select",
    "copy_": "CopySlices Copy",
    "narrow": "Slice",
    "to float half double bfloat16 type type_as cpu cuda": "ToCopy",
    "dropout": "Mul NativeDropout",
    "dropout1d dropout2d": "Mul FeatureDropout",
    "alpha_dropout feature_alpha_dropout": "Mul Add",
    "layer_norm": "NativeLayerNorm",
    "batch_norm": "NativeBatchNorm CudnnBatchNorm",
    "group_norm": "NativeGroupNorm Clone",
    "instance_norm": f"NativeBatchNorm Repeat {_VIEW}",
    "rms_norm": "FusedRmsNorm Pow Mean Add Rsqrt Mul ToCopy",
    "local_response_norm": "Mul Pow Div AvgPool Unsqueeze Squeeze Add ConstantPadNd View",
    "scaled_dot_product_attention": f"ScaledDotProduct {_MATMUL} Mul Softmax Add "
    "NativeDropout SafeSoftmax Slice ConstantPadNd",
    "cross_entropy": "LogSoftmax NllLoss Gather Mul Sum Neg Div Add Mean",
    "mse_loss": "MseLoss Mean",
    "l1_loss": "Abs Sub Mean",
    "binary_cross_entropy_with_logits": "BinaryCrossEntropyWithLogits Mean",
    "pad": "ConstantPadNd ReflectionPad ReplicationPad Cat",
    "interpolate upsample_nearest": "Upsample",
    "grid_sample": "GridSampler",
    "adaptive_avg_pool2d": f"Mean AdaptiveAvgPool2D AsStrided {_VIEW}",
    "adaptive_avg_pool1d": "AdaptiveAvgPool2D Mean Squeeze Unsqueeze",
    "max_pool1d": "MaxPool Squeeze Unsqueeze",
    "max_pool2d": "MaxPool",
    "avg_pool1d": "AvgPool Squeeze Unsqueeze",
    "movedim numpy_t": "Permute",
    "swapaxes swapdims mT": "Transpose",
    "t": "T Transpose",
    "T": "T Permute Transpose Numpy",
    "expand_as broadcast_to": "Expand",
    "tile": "Repeat",
    "repeat_interleave": f"RepeatInterleave IndexSelect Index {_VIEW} Expand",
    "stack": "Stack Cat Unsqueeze",
    "hstack vstack concat concatenate": "Cat",
    "softmax": "Softmax ToCopy",
    "log_softmax": "LogSoftmax ToCopy",
    "softmin": "Softmax Neg",
    "normalize": "LinalgVectorNorm ClampMin Expand Div Norm",
    "norm": "LinalgVectorNorm Norm",
    "cosine_similarity": "CosineSimilarity Mul Sum Div LinalgVectorNorm Clamp Expand",
    "prelu": "PreluKernel",
    "selu": "Elu",
    "relu6": "Hardtanh",
    "clip": "Clamp",
    "unfold": f"Im2Col Unfold {_VIEW}",
    "fold": "Col2Im",
    "diag": "Diagonal",
}
_NODES = {name: nodes.split() for names, nodes in _TABLE.items() for name in names.split()}
_LAYERS = frozenset(
    {
        "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell",
        "rnn_relu_cell", "multi_head_attention_forward",
    }
)  # fmt: skip
"""Functions that torch computes by many operations, of any class."""

_CONVOLUTION = re.compile(r"_?conv(_transpose)?(\dd)?(_forward)?|convolution")
_IN_PLACE_ON_VIEW = ("CopySlices", "AsStrided")


@functools.lru_cache(65_536)
def cost(name: str, op: str) -> float | None:
    """Return the cost, 0 to 1, of assuming that a function made a node; None: it cannot."""
    if name.startswith(ANYTHING):
        return 0.6
    if name in _LAYERS:
        return 0.3
    made = without_backward(op)
    if name.endswith(("_", "=")) and made in _IN_PLACE_ON_VIEW:
        return 0.1
    bare = name.rstrip("_=") or name
    nodes = _NODES.get(name) or _NODES.get(bare)
    if nodes is not None:
        # Classes of many kinds begin alike: MaxPool2DWithIndices, NllLoss2D.
        fits = any(made == node or (len(node) > 4 and made.startswith(node)) for node in nodes)
    elif _CONVOLUTION.fullmatch(name):
        fits = "onvolution" in made
    else:
        short = bare.replace("_", "").lower()
        fits = len(short) > 1 and made.lower().removeprefix("linalg").startswith(short)
    return 0.0 if fits else None


def makes_many(name: str) -> bool:
    """Whether one call of a function may make several nodes."""
    return name.startswith(ANYTHING) or name in _LAYERS or len(_NODES.get(name, ())) > 1


def is_layer(name: str) -> bool:
    """Whether a function computes a whole layer by operations of any kind."""
    return name in _LAYERS


ANYTHING = "?"  # the name of a function that the source does not show: it may do anything

Test = tuple[Any, ...]
"""A condition on a module's attributes: ("true", "training"), ("==", "bias", None), ("not", ...),
("and", (...)) or ("or", (...))."""


@dataclass(frozen=True)
class Branch:
    """One side of a condition."""

    number: int  # which condition
    side: bool  # whether it is the side on which the condition holds
    leaves: bool  # whether the function or the loop ends there
    test: Test | None  # the condition, where it depends on the module's attributes alone


@dataclass(frozen=True)
class Step:
    """One step of a forward: a call of a function, or a use of something below the module."""

    # The function: "relu", "+", "getitem"; ANYTHING; None where ``refs`` is called or passed on.
    name: str | None
    # Dotted names below the module; "*" stands for any name, "" for the module.
    refs: tuple[str, ...] = ()
    # Dotted names below the module of the arguments: "weight", "qkv.weight".
    given: tuple[str, ...] = ()
    loops: tuple[int, ...] = ()  # the numbers of the loops around it, outermost first
    branches: tuple[Branch, ...] = ()  # the conditions around it, outermost first


def calls_method(step: Step) -> bool:
    """Whether a step may call a method of another module: "rows.looked_up", not "rows" alone."""
    if step.name is not None or len(step.refs) != 1 or step.given == step.refs:
        return False
    owner, _, method = step.refs[0].rpartition(".")
    return bool(owner) and method != "*"


def with_called(steps: Sequence[Step], called: Mapping[int, Sequence[Step]]) -> list[Step]:
    """Replace the calls of methods by the steps of these methods.

    Returns all of them as steps of the calling module: with names below it, and with new numbers
    for loops and conditions. ``called``: index of a step -> the steps of the method that it calls.
    """
    found: list[Step] = []
    free = 1 + _highest(steps)
    for i, step in enumerate(steps):
        if i not in called:
            found.append(step)
            continue
        owner = step.refs[0].rpartition(".")[0]
        given = () if any(each.given for each in called[i]) else step.given
        for each in called[i]:
            refs = tuple(f"{owner}.{ref}".rstrip(".") for ref in each.refs)
            own = tuple(f"{owner}.{ref}".rstrip(".") for ref in each.given) or given
            loops = (*step.loops, *(number + free for number in each.loops))
            inner = (replace(branch, number=branch.number + free) for branch in each.branches)
            found.append(Step(each.name, refs, own, loops, (*step.branches, *inner)))
        free += 1 + _highest(called[i])
    return found


def _highest(steps: Sequence[Step]) -> int:
    """The highest number of a loop or a condition."""
    numbers = ((*step.loops, *(each.number for each in step.branches)) for step in steps)
    return max((number for some in numbers for number in some), default=0)


_STRANGE = 3.0  # the cost of a node whose class the function does not make
_SKIPPED = 0.1  # the cost of a function that did not run, but could have made a node
AGAIN = 0.4  # the cost of one more node of the same call

_BACK = 0.15  # the cost of one more round of a loop
_ENOUGH = 1e-6

CallNumbers = tuple[int, ...]


class Call(NamedTuple):
    """A call of a function in the code."""

    name: str  # the name of the function
    owner: str  # the path of the module whose forward has the call
    loop: tuple[str, int] | None = None  # the identity of the loop around it; None for none
    cost: float = 0.0  # an additional cost of assigning a node to the call
    ran: bool = False  # whether it made a certain node, so that it need not make another


class Aligner:
    """Aligns operations with code. Equal sequences are aligned once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[Call, ...]], list[CallNumbers]] = {}

    def owners(self, ops: Sequence[str], calls: Sequence[Call]) -> list[str]:
        """Return the innermost module around all those that may have run each operation."""
        kinds = set(ops)
        able = [d for d in calls if any(cost(d.name, op) is not None for op in kinds)]
        if not able:
            around = common_ancestor(call.owner for call in calls) if calls else ""
            return [around] * len(ops)
        # Repeated modules differ by their paths only.
        paths: dict[str, int] = {}
        loops: dict[tuple[str, int], int] = {}
        alike = []
        for call in able:
            owner = str(paths.setdefault(call.owner, len(paths)))
            loop = None if call.loop is None else ("", loops.setdefault(call.loop, len(loops)))
            alike.append(call._replace(owner=owner, loop=loop))
        key = tuple(ops), tuple(alike)
        if key not in self._known:
            self._known[key] = _align(*key)
        names = list(paths)
        return [common_ancestor(names[i] for i in places) for places in self._known[key]]


def _align(ops: tuple[str, ...], calls: tuple[Call, ...]) -> list[CallNumbers]:
    """Return, for each operation, the owners of the calls that most likely made it.

    Those on a way through the code with the least sum of costs. One sweep forwards and one
    backwards find it, in time linear in operations times calls.
    """
    own = [[_STRANGE if (d := _cost_of(call, op)) is None else d for call in calls] for op in ops]
    skipped = [0.0]
    for call in calls:
        free = call.ran or call.name.startswith(ANYTHING)
        skipped.append(skipped[-1] + (0.0 if free else _SKIPPED))
    again = [0.0 if makes_many(call.name) else AGAIN for call in calls]
    loops: dict[object, list[int]] = defaultdict(list)
    for i, call in enumerate(calls):
        if call.loop is not None:
            loops[call.loop].append(i)
    places = range(len(calls))
    before = [[skipped[i] + own[0][i] for i in places]]
    for row in own[1:]:
        so_far = _step(before[-1], places, skipped, again, loops.values())
        before.append([so_far[i] + row[i] for i in places])
    after = [[skipped[-1] - skipped[i + 1] for i in places]]
    for row in reversed(own[1:]):
        rest = [after[-1][i] + row[i] for i in places]
        left = [skipped[-1] - each for each in reversed(skipped)]
        around = [[len(calls) - 1 - i for i in each] for each in loops.values()]
        turned = _step(rest[::-1], places, left, again[::-1], around)
        after.append(turned[::-1])
    least = min(a + b for a, b in zip(before[-1], after[0], strict=True)) + _ENOUGH
    return [
        tuple(sorted({int(calls[i].owner) for i in places if there[i] + then[i] <= least}))
        for there, then in zip(before, reversed(after), strict=True)
    ]


def _cost_of(call: Call, op: str) -> float | None:
    found = cost(call.name, op)
    return None if found is None else found + call.cost


def _step(
    costs: list[float],
    places: range,
    skipped: list[float],
    again: list[float],
    loops: Collection[list[int]],
) -> list[float]:
    """Return the least cost of being at each call one operation later."""
    found = []
    best = float("inf")
    for i in places:
        found.append(min(best + skipped[i], costs[i] + again[i]))
        best = min(best, costs[i] - skipped[i + 1])
    for members in loops:
        around = min(costs[i] for i in members) + _BACK
        for i in members:
            found[i] = min(found[i], around)
    return found
