"""The sentences that explain constants, cuts and tensors outside the graph, and their remedies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tracing.cuts import ALIAS, Cause, Constant, Cut
from ..tracing.source_line import SourceLine


def about_constant(data: dict[str, Any], constant: Constant | None) -> str:
    """Describe a constant."""
    name = data["name"] or "This operand"
    if data["inferred"]:
        return (
            f"{name} needs no grad: a constant for backward. That is inferred from what the "
            "operation saved; run the forward pass under gradwalk.watch() to see where it was made."
        )
    origin = constant.origin if constant is not None else None
    if constant is not None and constant.tensor is None and origin and origin.where is None:
        return f"{data['value'] or name} is a number in the program: a constant for backward."
    made = "the program made it" if constant is not None and constant.origin else "it came in"
    return (
        f"{name} needs no grad: a constant for backward. No gradient is computed for it, because "
        f"{made} with requires_grad=False and, as far as watch() saw, not from a tensor that needs "
        "grad."
    )


def about_cut(data: dict[str, Any], cuts: Sequence[Cut], sources: Sequence[str]) -> str:
    """Describe a cut and its effect."""
    name = data["name"] or "This operand"
    ways = [
        _LOST[cut.how][0].format(at="", region="", source=source)
        for cut, source in zip(cuts, sources, strict=True)
    ]
    known = ", as far as can be inferred" if data["inferred"] else ""
    return (
        f"No gradient flows here{known}: {'; '.join(dict.fromkeys(ways))}. {name} is a constant "
        f"for backward, so no gradient reaches {' and '.join(dict.fromkeys(sources))} through it."
    )


def about_outside(data: dict[str, Any]) -> str:
    """Describe a tensor outside the graph."""
    name = data["name"] or "This tensor"
    return (
        f"{name} requires grad, but is not part of this graph: only its values came in, through a "
        "cut, so no gradient flows back to it this way."
    )


def no_flow(data: dict[str, Any]) -> str:
    """Say why no gradient is shown for a node that is not an autograd node."""
    if data["kind"] == "outside":
        return "It is not part of this graph, so its gradients are not seen here."
    return "It needs no grad, so backward computes no gradient for it."


_LOST = {
    "detach": (
        "detach(){at} took the values of {source} without its graph",
        "Leave out the detach() if gradients should flow",
    ),
    "data": (
        ".data{at} took the values of {source} without its graph",
        "Use the tensor itself if gradients should flow",
    ),
    "copy": (
        "torch.tensor(){at} made a new tensor from the values of {source}, without its graph",
        "Use the tensor itself, or its clone()",
    ),
    "no_grad": (
        "torch did not record the operation on {source}{at}, because grad mode was off{region}",
        "Compute that outside torch.no_grad()",
    ),
    "inference_mode": (
        "torch did not record the operation on {source}{at}, because of torch.inference_mode()",
        "Move that line out of the inference_mode block",
    ),
    "derivative": (
        "torch.autograd.grad(){at} gave a derivative of {source} without its graph",
        "Pass create_graph=True if gradients should flow through the derivative",
    ),
    "item": (
        "the values of {source} were read as Python numbers{at}, and a number has no graph",
        "Stay with tensors, without item(), tolist() and float()",
    ),
    "numpy": (
        "the values of {source} were read as a NumPy array{at}, and an array has no graph",
        "Stay with torch functions",
    ),
    "no derivative": (
        "torch has no derivative of the operation on {source}{at}",
        "Use an operation that has one",
    ),
    "integer cast": (
        "{source} was cast to integers{at}, which have no gradients",
        "Stay with floating point numbers",
    ),
    "integer result": (
        "an operation on {source}{at} gave integers or booleans, which have no gradients",
        "Use a smooth substitute, such as softmax for argmax",
    ),
    ALIAS: (
        "an operation{at} took a tensor that shares the memory of {source} but does not require "
        "grad, as detach() or .data makes it (inferred from the memory)",
        "Use the tensor itself, after requires_grad_()",
    ),
}
"""By how gradient was lost: what happened, and what to do."""


def lost_by(cut: Cut, source: str, *, advise: bool = True) -> str:
    """Say how a gradient was lost and what to do about it, to follow a colon."""
    at = at_line(cut.where, text=True)
    if cut.own is not None:
        at += f", called{at_line(cut.own, text=True)},"
    region = f" (switched off at {cut.region})" if cut.region is not None else ""
    how, remedy = _LOST[cut.how]
    return how.format(at=at, source=source, region=region) + (f". {remedy}" if advise else "")


_CALLS = {
    "detach": "detach()",
    "data": ".data",
    "item": "item()",
    "numpy": "numpy()",
    "copy": "a copy",
    "no derivative": "an operation without a derivative",
    "integer cast": "a cast to integers",
    "integer result": "an operation that gives integers or booleans",
    "derivative": "torch.autograd.grad() without create_graph=True",
}


def words_for(how: str) -> str:
    """Return what cut a gradient, by `Cut.how`: "detach()"."""
    return _CALLS.get(how, how)


def words_of(cause: Cause) -> str:
    """Return a cause of cuts in words: "detach() at train.py:5 (`y = h.detach()`)"."""
    how, where = cause
    return f"{words_for(how)}{at_line(where, text=True)}"


def at_line(where: SourceLine | None, *, text: bool = False) -> str:
    """Return " at file.py:3", if asked with the line's text; empty for None."""
    if where is None:
        return ""
    return f" at {where}" + (f" (`{where.text}`)" if text and where.text else "")
