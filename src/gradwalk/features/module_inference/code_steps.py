"""The steps of a forward's code, and the conditions around them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    "setitem": "CopySlices IndexPut AsStrided Slice Select",
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
"""What torch computes by so many operations that any may be among them."""

_CONVOLUTION = re.compile(r"_?conv(_transpose)?(\dd)?(_forward)?|convolution")
_IN_PLACE_ON_VIEW = ("CopySlices", "AsStrided")


@functools.lru_cache(65_536)
def cost(name: str, op: str) -> float | None:
    """Return the cost of assuming that a function made a node.

    Returns 0 where it makes such nodes, up to 1 where it may make any; None where it makes others.
    """
    if name.startswith(ANYTHING):
        return 0.6
    if name in _LAYERS:
        return 0.3
    made = re.sub(r"Backwards?\d*(_copy)?$", "", op)
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


ANYTHING = "?"
"""The name of a function that the text does not tell, and that may do anything."""

Test = tuple[Any, ...]
"""A condition on the module's attributes: ("true", "training"), ("==", "bias", None), ("not", ...),
("and", (...)), ("or", (...))."""


@dataclass(frozen=True)
class Branch:
    """One side of a condition.

    Attributes:
        number: Which condition.
        side: Whether it is the side on which the condition holds.
        leaves: Whether the function or the loop ends there.
        test: The condition, where it depends on the module's attributes alone.
    """

    number: int
    side: bool
    leaves: bool
    test: Test | None


@dataclass(frozen=True)
class Step:
    """One thing that a forward does.

    Attributes:
        name: The function: "relu", "+", "getitem"; ANYTHING; None for something below the module
            itself, ``refs``, that is called or handed on.
        refs: Dotted names below the module; "*" stands for any name, "" for the module.
        given: Dotted names below the module of what goes in: "weight", "qkv.weight".
        loops: The numbers of the loops around it, outermost first.
        arms: The conditions around it, outermost first.
    """

    name: str | None
    refs: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    loops: tuple[int, ...] = ()
    arms: tuple[Branch, ...] = ()


def calls_method(step: Step) -> bool:
    """Whether a step may call a method of another module: "rows.looked_up", not "rows" alone."""
    if step.name is not None or len(step.refs) != 1 or step.given == step.refs:
        return False
    owner, _, method = step.refs[0].rpartition(".")
    return bool(owner) and method != "*"


def with_called(steps: Sequence[Step], called: Mapping[int, Sequence[Step]]) -> list[Step]:
    """Replace the calls of methods by the steps of these methods.

    Returns all of them as steps of the one that calls: names below it, loops and conditions
    numbered anew. ``called``: index of a step -> the steps of the method that it calls.
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
            arms = (replace(arm, number=arm.number + free) for arm in each.arms)
            found.append(
                replace(
                    each,
                    refs=tuple(f"{owner}.{ref}".rstrip(".") for ref in each.refs),
                    given=tuple(f"{owner}.{ref}".rstrip(".") for ref in each.given) or given,
                    loops=(*step.loops, *(number + free for number in each.loops)),
                    arms=(*step.arms, *arms),
                )
            )
        free += 1 + _highest(called[i])
    return found


def _highest(steps: Sequence[Step]) -> int:
    """The highest number of a loop or a condition."""
    numbers = (n for step in steps for n in (*step.loops, *(arm.number for arm in step.arms)))
    return max(numbers, default=0)
