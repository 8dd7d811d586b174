"""What an operation is called on a board: "+", "×", "x²", "conv 3×3"."""

from __future__ import annotations

import functools
import re
from typing import Any

import networkx as nx
from torch.autograd.graph import Node

_SIGNS = {
    "add": "+",
    "sub": "−",
    "rsub": "( ) −",
    "mul": "×",
    "div": "÷",
    "neg": "−( )",
    "reciprocal": "1 / ( )",
    "pow": "( )ⁿ",
    "square": "( )²",
    "sqrt": "√( )",
    "rsqrt": "1 / √( )",
    "abs": "|( )|",
    "sum": "Σ",
    "prod": "Π",
    "mm": "@",
    "bmm": "@",
    "mv": "@",
    "dot": "@",
    "addmm": "@ +",
    "addmv": "@ +",
    "baddbmm": "@ +",
    "t": "( )ᵀ",
    "transpose": "( )ᵀ",
    "select": "[ ]",
    "slice": "[ : ]",
    "index": "[ ]",
    "cat": "cat",
    "tocopy": "cast",
    "addcmul": "+ ×",
    "addcdiv": "+ ÷",
    "nativelayernorm": "layer norm",
    "nativebatchnorm": "batch norm",
    "cudnnbatchnorm": "batch norm",
    "nativegroupnorm": "group norm",
    "nativedropout": "dropout",
    "mseloss": "mse",
    "nllloss": "nll",
    "nllloss2d": "nll",
    "l1loss": "l1",
    "convolution": "conv",
    "maxpool2dwithindices": "max pool",
    "avgpool2d": "avg pool",
    "adaptiveavgpool2d": "avg pool",
    "safesoftmax": "softmax",
    "scaleddotproductflashattentionforcpu": "attention",
    "scaleddotproductflashattention": "attention",
    "scaleddotproductefficientattention": "attention",
    "scaleddotproductcudnnattention": "attention",
    "sigmoid": "σ",
}

_BACKWARD = re.compile(r"Backward\d*$")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@functools.cache
def sign_of(op: str) -> str:
    """The sign of an operation, by the name of its class alone.

    Args:
        op: What torch calls it, "MulBackward0" or "aten.mul.Tensor".

    Returns:
        A sign or a word or two.

    Example::

        >>> sign_of("MulBackward0"), sign_of("aten.relu.default"), sign_of("LogSoftmaxBackward0")
        ('×', 'relu', 'log softmax')
    """
    if op.startswith("aten."):
        words = op.split(".")[1].strip("_").split("_")
    else:
        words = [word.lower() for word in _WORDS.findall(_BACKWARD.sub("", op))]
    return _SIGNS.get("".join(words)) or " ".join(words) or op


def sign_at(graph: nx.MultiDiGraph, node: int, behind: Node | None = None) -> str | None:
    """The sign of a node of a graph.

    Args:
        graph: What `gradwalk.capture` gave.
        node: A node of it.
        behind: The autograd node behind it, where there is one.

    Returns:
        Its sign, with the exponent of a power, and the window of a convolution or a pooling: its
        size, and its step where that is not 1, "max pool 3×3 /2"; None for what is no operation.

    Example::

        >>> import torch
        >>> from gradwalk import capture
        >>> layer = torch.nn.Conv2d(3, 8, 7, stride=2)
        >>> y = layer(torch.ones(1, 3, 16, 16))
        >>> sign_at(capture(y), 0, y.grad_fn)
        'conv2d 7×7 /2'
    """
    data = graph.nodes[node]
    if data["kind"] != "op":
        return None
    sign = sign_of(data["op"])
    if sign == "( )ⁿ" and behind is not None:
        return _power(getattr(behind, "_saved_exponent", None)) or sign
    if sign == "conv":
        return f"{sign}{kernel}{_step(behind)}" if (kernel := _kernel(graph, node)) else sign
    if sign in ("max pool", "avg pool"):
        return f"{sign}{_window(behind)}"
    return sign


def _power(exponent: Any) -> str | None:
    """A power with its exponent."""
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float)):
        return None
    if exponent == int(exponent):
        return "1 / ( )" if exponent == -1 else "( )" + str(int(exponent)).translate(_SUPERSCRIPTS)
    return "√( )" if exponent == 0.5 else f"( )^{exponent:.4g}"


def _kernel(graph: nx.MultiDiGraph, node: int) -> str:
    """How many dimensions a convolution has and how large its kernel is: "2d 3×3"."""
    for _, target, argument in graph.out_edges(node, data="argument"):
        shape = graph.nodes[target]["shape"]
        if argument == "weight" and shape is not None and len(shape) > 2:
            return f"{len(shape) - 2}d {'×'.join(map(str, shape[2:]))}"
    return ""


def _window(behind: Node | None) -> str:
    """How large the window of a pooling is, and its step: " 3×3 /2"."""
    size = _sizes(behind, "kernel_size")
    return f" {'×'.join(map(str, size))}{_step(behind)}" if size else ""


def _step(behind: Node | None) -> str:
    """The step of a window, " /2", where it is not 1; of a transposed convolution " ↑2"."""
    # A pooling without a step goes on by the size of its window.
    step = _sizes(behind, "stride") or _sizes(behind, "kernel_size")
    if all(size == 1 for size in step):
        return ""
    arrow = "↑" if getattr(behind, "_saved_transposed", False) else "/"
    alike = step[:1] if len(set(step)) == 1 else step
    return f" {arrow}{'×'.join(map(str, alike))}"


def _sizes(behind: Node | None, name: str) -> tuple[int, ...]:
    """Sizes that a node keeps, one per dimension; none where it keeps none."""
    found = getattr(behind, f"_saved_{name}", ())
    return tuple(found) if isinstance(found, (tuple, list)) else ()
