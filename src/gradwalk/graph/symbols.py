"""Symbols of operations: "+", "×", "x²", "conv 3×3"."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from torch.autograd.graph import Node

from ..english import plural
from ..lazily import nx
from ..torch_api.compiled import calls_in
from ..torch_api.nodes import (
    COMPILED,
    custom_function,
    is_of_torch,
    knows_saved,
    node_class,
    saved_names,
)
from ..torch_api.saved_tensors import plain_value, signed
from .adjacency import attributes, predecessors, successors
from .index_signs import INTO, index_sign
from .labels import without_backward

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
    "matmul": "@",
    "bmm": "@",
    "mv": "@",
    "dot": "@",
    "addmm": "@ +",
    "addmv": "@ +",
    "baddbmm": "@ +",
    "t": "( )ᵀ",
    "select": "[ ]",
    "slice": "[ : ]",
    "index": "[ ]",
    "cat": "cat",
    "tocopy": "cast",
    "tomkldnn": "to mkldnn",
    "reshapealias": "reshape",
    "constantpadnd": "pad",
    "addcmul": "+ ×",
    "addcdiv": "+ ÷",
    "copyslices": "[ ] =",
    "indexput": "[ ] =",
    "getitem": "[ ]",
    "im2col": "unfold",
    "col2im": "fold",
    "batchnormwithupdate": "batch norm",
    "batchnormnoupdate": "batch norm",
    "mseloss": "mse",
    "nllloss": "−log likelihood",
    "nllloss2d": "−log likelihood",
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

_LONG = {
    "binarycrossentropywithlogits": "BCE with logits",
    "binarycrossentropy": "BCE",
    "kldiv": "KL div",
    "smoothl1loss": "smooth l1",
    "huberloss": "huber",
    "softmarginloss": "soft margin",
    "multimarginloss": "multi margin",
    "multilabelmarginloss": "multi margin",
    "scaleddotproductattention": "attention",
    "scaleddotproductattentionmath": "attention",
    "scaleddotproductfusedattentionoverrideable": "attention",
    "upsamplenearest2d": "upsample",
    "upsamplebilinear2d": "upsample",
    "transformerencoderlayerfwd": "encoder",
    "embeddingbag": "embed bag",
    "linalgvectornorm": "norm",
    "inv": "inverse",
    "logsumexp": "log Σ exp",
    "totorchtensor": "to local",
    "fromtorchtensor": "from local",
    "redistribute": "place anew",
    "registerpostbackwardfunction": "reduce-scatter",
}
"""Symbols of operations whose names are too long for a node."""

_RNNS = {0: "rnn", 1: "rnn", 2: "lstm", 3: "gru"}  # by torch's number of the mode
_FACTORS = ("alpha", "beta", "value")  # torch's names for the factors of an operation

_OPERATORS = {"+", "−", "×", "÷", "( ) −"}
"""Symbols of two operands, one of which the symbol may contain."""

# Which code of torch runs says nothing about what it computes.
_OF_BACKENDS = frozenset(
    {"cudnn", "miopen", "mkldnn", "nnpack", "mps", "thnn", "native", "fused", "slow", "unsafe"}
    | {"special", "linalg", "ex", "impl", "interface", "kernel", "legit", "overrideable"}
)
# Digits belong to the word before them: "log 2" would be another function than log2.
_WORDS = re.compile(
    r"(?:[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+)(?:\d+(?:[A-Z](?![a-z])|[a-z]*))?|\d+"
)
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@functools.cache
def symbol_of(op: str) -> str:
    """Return the symbol of an operation, or a word or two, by the name of its class.

    Example:
        >>> symbol_of("MulBackward0"), symbol_of("CudnnConvolutionBackward0")
        ('×', 'conv')
        >>> symbol_of("GeluBackwardBackward0"), symbol_of("aten.gelu_backward.default")
        ('gelu ∂', 'gelu ∂')
    """
    if op.startswith("aten."):
        words = op.split(".")[1].strip("_").split("_")
    else:
        words = [word.lower() for word in _WORDS.findall(without_backward(op))]
    if words[-1:] == ["data"]:  # softmax_backward_data
        del words[-1]
    plain = [word for word in words if word not in _OF_BACKENDS] or words
    if plain[1:] and plain[-1] == "backward":
        sign = _sign_of_words(plain[:-1])
        return f"{INTO}{sign}" if sign.startswith("[") else f"{sign} ∂"
    return _known_sign(words) or _sign_of_words(plain) or op


def _sign_of_words(words: list[str]) -> str:
    return _known_sign(words) or " ".join(words)


def _known_sign(words: list[str]) -> str | None:
    joined = "".join(words)
    return _SIGNS.get(joined) or _LONG.get(joined)


def symbol_of_call(op: str, *, recomputed: bool = False) -> str:
    """Return the symbol of a call inside compiled code, of backward or a recomputed forward.

    Example:
        >>> symbol_of_call("aten.t.default", recomputed=True)
        '↻ ( )ᵀ'
    """
    return f"↻ {symbol_of(op)}" if recomputed else symbol_of(op)


def node_symbols(
    graph: nx.MultiDiGraph, grad_fn: Sequence[Node] = ()
) -> tuple[list[str | None], dict[int, int]]:
    """Return the symbols of the nodes of a graph.

    Returns the symbol of each node; None for a node that is not an operation. A symbol includes the
    exponent of a power, the window of a convolution or pooling ("max pool 3×3 /2" with its stride),
    the number of groups of a grouped product, the places that are read ("[0]"), and an unnamed
    operand of one number ("× 2"). Then a dict from each constant that a symbol contains to the node
    with that symbol.
    """
    signs: list[str | None] = []
    contained: dict[int, int] = {}
    nodes = attributes(graph)
    for node, data in nodes.items():
        if data["kind"] not in ("op", "call"):
            signs.append(None)
            continue
        own = grad_fn[node] if node < len(grad_fn) else None
        sign, constant = _sign_at(graph, node, data, own)
        signs.append(sign)
        if constant is not None:
            contained[constant] = node
    return signs, contained


def _sign_of_code(data: dict[str, Any], grad_fn: Node | None) -> str:
    """Return the symbol of a custom Function, of compiled code, or of a call inside it."""
    if data["kind"] == "call":
        return symbol_of_call(data["op"], recomputed=data["recomputed"])
    if data["op"] != COMPILED:
        return without_backward(data["op"])
    count = 0 if grad_fn is None else len(calls_in(grad_fn))
    return f"compiled: {plural(count, 'call')}" if count else "compiled"


def _sign_at(
    graph: nx.MultiDiGraph, node: int, data: dict[str, Any], grad_fn: Node | None
) -> tuple[str, int | None]:
    if data["kind"] != "op" or data["op"] == COMPILED or _is_custom(grad_fn):
        return _sign_of_code(data, grad_fn), None
    sign = symbol_of(data["op"])
    if grad_fn is not None and not knows_saved():  # its factors, places and kinds are unknown
        return sign, None
    detailed = index_sign(data["op"], grad_fn) or _sign_of_layer(sign, graph, node, grad_fn)
    if detailed is not None:
        return detailed, None
    if graph.graph.get("static", False):
        return sign, None
    return _sign_with_numbers(graph, node, data, grad_fn, sign)


def _sign_with_numbers(
    graph: nx.MultiDiGraph, node: int, data: dict[str, Any], grad_fn: Node | None, sign: str
) -> tuple[str, int | None]:
    if sign == "( )ⁿ":
        return _power_at(graph, node, grad_fn)
    if not _is_plain(grad_fn):
        return _with_factor(sign, grad_fn), None
    is_assigned = data.get("call") == "__setitem__" and sign == "[ ] ="
    if sign not in _OPERATORS and not is_assigned:
        return sign, None
    found = _literal(graph, node)
    if found is None:
        own = plain_value(grad_fn, "other")  # a number, in what backward makes
        is_real = isinstance(own, (int, float))
        return (f"{sign} {own:.4g}".replace("-", "−") if is_real else sign), None
    constant, number, is_first = found
    if is_assigned:
        return (sign, None) if is_first else (f"{sign} {number}", constant)
    if sign == "( ) −":  # the second operand is the one with a gradient
        return f"{number} −", constant
    return (f"{number} {sign}" if is_first else f"{sign} {number}"), constant


def _sign_of_layer(
    sign: str, graph: nx.MultiDiGraph, node: int, grad_fn: Node | None
) -> str | None:
    """Return the symbol of a layer with its sizes or kind; None for other operations."""
    if sign == "conv":
        kernel = _kernel(graph, node)
        return f"{sign}{kernel}{_step(grad_fn)}" if kernel else sign
    if sign in ("max pool", "avg pool"):
        return f"{sign}{_window(grad_fn)}"
    if sign in ("rnn", "rnn layer"):
        return _RNNS.get(plain_value(grad_fn, "mode"), sign)
    if sign == "grouped mm":
        return f"{sign}{_groups(grad_fn)}"
    if sign == "permute" and _is_transpose(_sizes(grad_fn, "dims")):
        return "( )ᵀ"
    if sign == "transpose":
        return _transpose(graph.nodes[node]["shape"], grad_fn)
    return None


def _transpose(shape: Sequence[int] | None, grad_fn: Node | None) -> str | None:
    """Return the symbol of a swap of two dimensions: "( )ᵀ" of the last two."""
    dims = [signed(plain_value(grad_fn, name)) for name in ("dim0", "dim1")]
    if not shape or not all(type(dim) is int for dim in dims):
        return None
    first, second = sorted(dim % len(shape) for dim in dims)
    is_last = (first, second) == (len(shape) - 2, len(shape) - 1)
    return "( )ᵀ" if is_last else f"transpose {first}, {second}"


def _is_transpose(dims: tuple[int, ...]) -> bool:
    """Whether an order of dimensions swaps the last two alone."""
    last = len(dims)
    order = [signed(dim) % last for dim in dims]
    return last > 1 and order == [*range(last - 2), last - 1, last - 2]


def _is_custom(grad_fn: Node | None) -> bool:
    """Whether it is of a user's Function, whose name says nothing about what it computes."""
    if grad_fn is None or not node_class(type(grad_fn)).is_function:
        return False
    custom = custom_function(grad_fn)
    return custom is None or not is_of_torch(custom)


def _is_plain(grad_fn: Node | None) -> bool:
    """Whether an operation is exactly its symbol, without further factors or rounding."""
    for name in () if grad_fn is None else _may_multiply(type(grad_fn)):
        if name == "rounding_mode" and plain_value(grad_fn, name) is not None:
            return False
        if name != "rounding_mode" and _factor(grad_fn, name) != 1:
            return False
    return True


@functools.cache
def _may_multiply(cls: type) -> tuple[str, ...]:
    """Return the saved factors and rounding modes that nodes of a class may have."""
    names = *_FACTORS, "rounding_mode"
    return tuple(name for name in names if name in saved_names(cls))


def _factor(grad_fn: Node | None, name: str) -> Any:
    found = plain_value(grad_fn, name, 1)
    return found if isinstance(found, (int, float, complex)) else 1


def _with_factor(sign: str, grad_fn: Node | None) -> str:
    """Add the factor of the second operand or the rounding mode: "+ 3 ×", "÷ floor"."""
    alpha, beta, value = (f"{_factor(grad_fn, name):.4g}".replace("-", "−") for name in _FACTORS)
    if sign in ("+", "−", "( ) −"):
        return f"{sign} {alpha} ×"
    if sign == "÷":
        return f"÷ {plain_value(grad_fn, 'rounding_mode', '')}".strip()
    if sign in ("+ ×", "+ ÷"):
        return f"+ {value} {'× ×' if sign == '+ ×' else '× ÷'}"
    if sign == "@ +":
        scaled = "@" if alpha == "1" else f"{alpha} × @"
        return f"{scaled} +" if beta == "1" else f"{scaled} + {beta} ×"
    return sign


def _literal(graph: nx.MultiDiGraph, node: int) -> tuple[int, str, bool] | None:
    """Return the unnamed number that only this operation uses, as text, and whether it is first."""
    edges = [
        (target, edge)
        for target, between in successors(graph)[node].items()
        for edge in between.values()
        if edge.get("kind") == "constant"
    ]
    if len(edges) != 1:
        return None
    ((target, edge),) = edges
    data = attributes(graph)[target]
    number = _number(data)
    consumers = sum(map(len, predecessors(graph)[target].values()))
    if number is None or data["name"] is not None or consumers != 1:
        return None
    is_first = edge["arg_nr"] == 0 if edge["arg_nr"] is not None else edge["argument"] == "self"
    return target, number, is_first


def _number(data: dict[str, Any]) -> str | None:
    """Return the text of a constant of one number; None for any other node."""
    text = data.get("value")
    if data["kind"] != "constant" or text is None or any(size != 1 for size in data["shape"]):
        return None
    return str(text).strip("[]").replace("-", "−")


def _power_at(graph: nx.MultiDiGraph, node: int, grad_fn: Node | None) -> tuple[str, int | None]:
    found = _literal(graph, node)
    if found is not None:
        constant, number, is_first = found
        if is_first:
            return f"{number}^( )", constant
        try:
            return _power(float(number.replace("−", "-"))) or "( )ⁿ", constant
        except ValueError:
            return "( )ⁿ", None
    # A base or exponent that is a tensor is known only as an operand.
    op = graph.nodes[node]["op"]
    if op == "PowBackward2":
        base = plain_value(grad_fn, "self")
        is_real = isinstance(base, (int, float)) and not isinstance(base, bool)
        return (f"{base:.4g}^( )".replace("-", "−") if is_real else "( )ⁿ"), None
    exponent = plain_value(grad_fn, "exponent") if op == "PowBackward0" else None
    return _power(exponent) or "( )ⁿ", None


def _power(exponent: Any) -> str | None:
    if isinstance(exponent, bool) or not isinstance(exponent, (int, float)):
        return None
    if abs(exponent) < 1000 and exponent == int(exponent):
        return "1 / ( )" if exponent == -1 else "( )" + str(int(exponent)).translate(_SUPERSCRIPTS)
    roots = {0.5: "√( )", -0.5: "1 / √( )"}
    return roots.get(exponent) or f"( )^{exponent:.4g}".replace("-", "−")


def _kernel(graph: nx.MultiDiGraph, node: int) -> str:
    """Return a convolution's dimensions and kernel size: "2d 3×3"."""
    for _, target, argument in graph.out_edges(node, data="argument"):
        shape = graph.nodes[target]["shape"]
        if argument == "weight" and shape is not None and len(shape) > 2:
            return f"{len(shape) - 2}d {'×'.join(map(str, shape[2:]))}"
    return ""


def _groups(grad_fn: Node | None) -> str:
    """Return the number of a grouped product's matrices: ", 4 groups"."""
    operands = [_sizes(grad_fn, name) for name in ("mat2_sym_sizes", "self_sym_sizes")]
    stacked = [sizes[0] for sizes in operands if len(sizes) == 3]
    return f", {plural(stacked[0], 'group')}" if stacked else ""


def _window(grad_fn: Node | None) -> str:
    """Return a pooling's window and stride: " 3×3 /2"."""
    size = _sizes(grad_fn, "kernel_size")
    return f" {'×'.join(map(str, size))}{_step(grad_fn)}" if size else ""


def _step(grad_fn: Node | None) -> str:
    """Return a stride other than 1: " /2"; for a transposed convolution " ↑2"."""
    # The default stride of a pooling is its window.
    step = _sizes(grad_fn, "stride") or _sizes(grad_fn, "kernel_size")
    if all(size == 1 for size in step):
        return ""
    arrow = "↑" if plain_value(grad_fn, "transposed") else "/"
    alike = step[:1] if len(set(step)) == 1 else step
    return f" {arrow}{'×'.join(map(str, alike))}"


def _sizes(grad_fn: Node | None, name: str) -> tuple[int, ...]:
    found = plain_value(grad_fn, name)
    return tuple(found) if isinstance(found, (tuple, list)) else ()
