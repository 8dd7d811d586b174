"""Compare nodes of a static graph with nodes of an autograd graph or another static graph.

An autograd graph names the derivative, "ConvolutionBackward0", static graphs the call,
"aten.conv2d.default", "conv2d" or the module "Conv2d". torch's own list names the function of each
derivative. The table here adds the names that torch gives one function internally.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..torch_api.signatures import signature

if TYPE_CHECKING:
    import networkx as nx

_DECORATION = re.compile(
    r"^native|legit(functional|notraining)?$|withindices$|forward$|(?<=[a-z])[123]d$"
)
_SYNONYMS = {
    "convolution": ("conv",),
    "matmul": ("linear", "addmm", "mm", "bmm", "baddbmm", "mv", "dot"),
    "view": ("flatten", "reshape", "reshapealias", "unflatten", "unsafeview"),
    "transpose": ("permute", "t", "numpyt", "movedim"),
    "div": ("truediv",),
    "nllloss": ("crossentropyloss", "crossentropy"),
    "tocopy": ("to",),
    "attention": (
        "scaleddotproductattention",
        "scaleddotproductflashattentionforcpu",
        "scaleddotproductflashattention",
        "scaleddotproductefficientattention",
    ),
}
_FAMILY = {word: family for family, words in _SYNONYMS.items() for word in words}

_ROLES = {
    "addmm": {"self": "bias", "mat1": "input", "mat2": "weight"},
    "baddbmm": {"self": "bias", "batch1": "input", "batch2": "weight"},
    "mm": {"mat2": "weight"},
    "bmm": {"mat2": "weight"},
    "matmul": {"other": "weight"},
}
_SAME_ROLE = {"self": "input", "a": "input", "b": "other"}


def in_shared_words(
    left: nx.MultiDiGraph, right: nx.MultiDiGraph
) -> tuple[nx.MultiDiGraph, nx.MultiDiGraph]:
    """Return copies of two graphs, a static one among them, with comparable attributes.

    Two autograd graphs are returned unchanged.
    """
    if not any(graph.graph.get("static") for graph in (left, right)):
        return left, right
    numbers: dict[str, int] = {}
    found = []
    for graph, other in ((left, right), (right, left)):
        translated = graph.copy()
        ours, theirs = ({n for _, n in each.nodes(data="name") if n} for each in (graph, other))
        called = without_root(ours, theirs)
        for _, data in translated.nodes(data=True):
            kind, operation = family(data)
            name = None if kind == "op" else called.get(data["name"])
            data.update(kind=kind, op=operation, name=name)
        for source, _, edge in translated.edges(data=True):
            word = role(graph.nodes[source]["op"], edge["argument"], edge["arg_nr"])
            edge["arg_nr"] = numbers.setdefault(word, len(numbers))
        found.append(translated)
    return found[0], found[1]


def family(data: Mapping[str, Any]) -> tuple[str, str]:
    """Return a key that is equal for nodes that may match, if a graph is static.

    It has the kind, and for an operation its function: ("op", "convolution"). An input tensor is an
    "end": a leaf of one graph may be a constant of the other.
    """
    if data["kind"] == "op":
        return "op", _function(data["op"])
    return ("end" if data["kind"] in ("leaf", "constant") else data["kind"]), ""


@functools.cache
def _function(op: str) -> str:
    word = called(op).lower().replace("_", "")
    while (plain := _DECORATION.sub("", word)) not in (word, ""):
        word = plain
    return _FAMILY.get(word, word)


def called(op: str) -> str:
    """Return torch's name of the function of an operation: "addmm", "max_pool2d"."""
    known = signature(op)
    if known is not None:
        return known.forward.partition("(")[0].partition(".")[0]
    return op.split(".")[1] if op.startswith("aten.") else op


def role(op: str, argument: str | None, arg_nr: int | None) -> str:
    """Return the role of an input, such as "weight", equal for both kinds of graph."""
    if argument is None:
        return str(arg_nr)
    known = _ROLES.get(called(op), {})
    return known.get(argument, _SAME_ROLE.get(argument, argument))


def without_root(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Map names to the other graph's: "net.conv1.weight" of a program to "conv1.weight".

    The first part that most often leads to a known name is removed from all.
    """
    given, known = list(names), set(known)
    split = {name: name.partition(".") for name in given if name not in known}
    roots = Counter(root for root, _, rest in split.values() if rest in known)
    best = max(roots, key=lambda root: roots[root], default=None)
    return {
        name: split[name][2] if name in split and split[name][0] == best else name for name in given
    }
