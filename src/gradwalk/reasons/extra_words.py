"""The sentences that explain constants, cuts and tensors outside the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..forward.cut_words import ALIAS
from ..forward.cuts import Constant, Cut

_HOW = {
    "detach": "{}.detach() took it out of the graph",
    "data": ".data of {} gives its values without the graph",
    "copy": "its values were copied out of {} into a new tensor",
    "item": "{} was read as a Python number, and a number has no graph",
    "numpy": "{} was read as a NumPy array, and an array has no graph",
    "no_grad": "it was computed from {} under torch.no_grad(), where nothing is recorded",
    "inference_mode": (
        "it was computed from {} under torch.inference_mode(), where nothing is recorded"
    ),
    "integer cast": "{} was cast to integers, which have no gradients",
    "integer result": "the result of an operation on {} is integers, which have no gradients",
    ALIAS: "it shares the memory of {} but needs no grad, as {}.detach() or .data would make it",
}


def about_constant(data: dict[str, Any], constant: Constant | None) -> str:
    """What a constant is."""
    name = data["name"] or "This operand"
    if data["inferred"]:
        return (
            f"{name} needs no grad: a constant for backward. That is inferred from what the "
            "operation saved; run the forward pass under gradwalk.watch() to see where it was made."
        )
    made = "the program made it" if constant is not None and constant.origin else "it came in"
    return (
        f"{name} needs no grad: a constant for backward. No gradient is computed for it, because "
        f"{made} with requires_grad=False and not from a tensor that needs grad."
    )


def about_cut(data: dict[str, Any], cuts: Sequence[Cut], sources: Sequence[str]) -> str:
    """What a cut is, and what it does."""
    name = data["name"] or "This operand"
    ways = [_HOW[cut.how].format(source, source) for cut, source in zip(cuts, sources, strict=True)]
    because = "; ".join(dict.fromkeys(ways))
    start = (
        "No gradient flows here, as far as can be inferred"
        if data["inferred"]
        else ("No gradient flows here")
    )
    return (
        f"{start}: {because}. {name} is a constant for backward, and "
        f"{' and '.join(dict.fromkeys(sources))} gets no gradient through it."
    )


def about_outside(data: dict[str, Any]) -> str:
    """What a tensor outside the graph is."""
    name = data["name"] or "This tensor"
    return (
        f"{name} requires grad, but is not part of this graph: only values of it came in, through "
        "a cut, so no gradient reaches it from here this way."
    )


def no_flow(data: dict[str, Any]) -> str:
    """Why no gradient is shown for a node that is no autograd node."""
    if data["kind"] == "outside":
        return "It is not part of this graph, so what flows through it is not seen here."
    return "It needs no grad, so backward computes no gradient for it."
