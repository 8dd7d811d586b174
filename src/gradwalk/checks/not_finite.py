"""Findings about NaN and Inf: in what the forward pass made, and in gradients."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from ..backward.failures import first_nan, is_finite
from ..english import list_some, plural
from ..explain.constants_and_cuts import at_line
from ..graph.adjacency import successors
from ..graph.labels import described
from ..result import make, replaced
from ..torch_api.nodes import keeps_tensors
from ..torch_api.reading import everywhere, finite, why_unreadable
from ..torch_api.saved_tensors import signed
from .context import CheckContext
from .finding import Finding
from .nan_causes import cause_behind

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})

_Rule = tuple[str, Callable[[Mapping[str, Any], torch.Tensor], torch.Tensor], str, str]
"""A saved tensor, a test of its numbers, what one that passes makes, and how in words."""

_LOG: tuple[_Rule, ...] = (
    ("self", lambda _, value: value < 0, "NaN", "which took numbers below 0"),
    ("self", lambda _, value: value == 0, "Inf", "which took zeros"),
)
_ARC: _Rule = (
    "self",
    lambda _, value: value.abs() > 1,
    "NaN",
    "which took numbers that are not from -1 to 1",
)
_POWER: _Rule = (
    "self",
    lambda saved, value: value.isfinite() & value.pow(saved["exponent"]).isinf(),
    "Inf",
    "where a power of {exponent:g} is too large for {self.dtype}",
)
# Operations that save what they took and not what they gave.
_MADE_BY: dict[str, tuple[_Rule, ...]] = {
    **dict.fromkeys((f"{name}Backward0" for name in ("Log", "Log2", "Log10")), _LOG),
    **dict.fromkeys(("AcosBackward0", "AsinBackward0"), (_ARC,)),
    "DivBackward0": (("other", lambda _, value: value == 0, "Inf", "which divided by zero"),),
    "PowBackward0": (_POWER,),
}
_AVERAGES = frozenset(
    f"{name}Backward0"
    for name in ("Mean", "MseLoss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropy")
)


def _made_by(op: str, saved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """NaN or Inf that an operation made, by what it took; and how."""
    for name, test, word, how in _MADE_BY.get(op, ()):
        if _any(saved[name], partial(test, saved)):
            yield word, how.format_map(saved)
    if op in _AVERAGES and saved.get("reduction", 1) == 1:
        sizes = saved["self"].shape if "self" in saved else saved["self_sym_sizes"]
        if 0 in tuple(sizes):
            yield "NaN", "which averages over no number, as of an empty selection"
    if op == "StdBackward0":
        yield from _of_one_number(saved)
    if op in ("NllLossBackward0", "NllLoss2DBackward0") and saved["reduction"] == 1:
        ignored = signed(saved["ignore_index"])
        if not _any(saved["target"], lambda label: label != ignored):
            yield "NaN", f"which averages over no label: each is {ignored}, its ignore_index"


def _of_one_number(saved: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The deviation of a single number, whose correction of 1 divides by zero."""
    taken, dims = saved["self"], saved["dim"]
    sizes = [taken.shape[signed(dim)] for dim in dims] if dims else [taken.numel()]
    if math.prod(sizes) <= (1 if saved["correction"] is None else saved["correction"]):
        yield (
            "NaN",
            f"which takes the deviation of {plural(math.prod(sizes), 'number')} and divides by 0: "
            "use correction=0, or more numbers",
        )


def _any(tensor: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    return everywhere(tensor, lambda part: ~test(part)) is False


def not_finite(context: CheckContext) -> Iterator[Finding]:
    """NaN and Inf: in an output, with where they are first known of; else in gradients."""
    bad = [place for place in context.captured.roots if _is_bad(_output(context, place))]
    birth = _birth(context)
    if not bad:
        if context.run is None:
            yield from _stored(context)
        first = _first(context, "NaN") if birth else None
        if first is not None:
            message = f"The output is finite, but the forward pass has NaN in between. {first[1]}"
            if first[0] not in birth[0].nodes:
                message += f" {birth[0].message}"
            birth = [replaced(birth[0], message=message, nodes=[first[0], *birth[0].nodes])]
        yield from birth
        return
    node, nr = bad[0]
    data = context.captured.graph.nodes[node]
    name = data["outputs"][nr]["name"] if nr < len(data["outputs"]) else data["name"]
    first = _first(context)
    where = f" {first[1]}" if first is not None else ""
    if first is None and birth:
        where = f" The saved tensors do not show where. In backward: {birth[0].message}"
    message = (
        f"{name or 'The output'} {_holds(_output(context, bad[0]))}: the forward pass made it."
        f"{where}"
    )
    numbers: dict[str, float] = {} if not birth else birth[0].numbers
    nodes = [node] if first is None else [first[0], node]
    yield make(Finding, "nan", "error", nodes, message, numbers)


def _has_nan(value: Any) -> bool:
    """Whether there is NaN among numbers as `Annotation.value` has them."""
    if isinstance(value, list):
        return any(map(_has_nan, value))
    if isinstance(value, torch.Tensor):
        return _word_of(value) == "NaN"
    return isinstance(value, (float, complex)) and value != value  # noqa: PLR0124


def _is_bad(output: torch.Tensor | None) -> bool:
    """Whether an output cannot be meant so: among several numbers, as of a mask, -Inf may be."""
    word = _word_of(output)
    return word == "NaN" or (word == "Inf" and output is not None and output.numel() == 1)


def _output(context: CheckContext, place: tuple[int, int]) -> torch.Tensor | None:
    """An output itself, while it lives."""
    reference = context.captured.tensors.get(place)
    return reference() if reference is not None else context.leaf(place[0])


def _first(context: CheckContext, only: str = "") -> tuple[int, str] | None:
    """The first operation of the program where NaN is known of, else Inf, in a sentence."""
    infinite = None
    for node in context.captured.operations:
        for word, sentence in _known_of(context, node):
            if word == "NaN":
                before = cause_behind(context, node, partial(_how, context))
                if infinite and infinite[0] == node and _how(context, node):
                    return infinite  # as of 0 / 0, and it says how
                if infinite and not only and not before:
                    before = f" Inf was there before. {infinite[1]}"
                return node, f"{sentence}{before}"
            infinite = infinite or (node, sentence)
    if only or infinite is None:
        return None
    return infinite[0], f"{infinite[1]}{cause_behind(context, infinite[0], partial(_how, context))}"


def _how(context: CheckContext, node: int) -> str | None:
    """How an operation made NaN or Inf of what it saved; None if that does not show it."""
    with contextlib.suppress(Exception):  # what it saved is freed, sparse, refuses to compare, ...
        op = context.captured.graph.nodes[node]["op"]
        return next((how for _, how in _made_by(op, context.saved(node))), None)
    return None


def _known_of(context: CheckContext, node: int) -> Iterator[tuple[str, str]]:
    """NaN and Inf that an operation took or made, by what it saved; each with a sentence."""
    captured = context.captured
    keeps = keeps_tensors(type(captured.nodes[node]))
    saved = context.saved(node) if keeps else {}
    tensors = {name: value for name, value in saved.items() if isinstance(value, torch.Tensor)}
    own = [name for name in tensors if name.startswith("result")]
    for name in [each for each in tensors if each not in own]:
        word = _word_of(tensors[name])
        if word:
            yield word, _of_saved(context, node, name, tensors[name])
    with contextlib.suppress(Exception):  # what it saved is freed, sparse, refuses to compare, ...
        for word, how in _made_by(captured.graph.nodes[node]["op"], saved):
            yield (
                word,
                f"The first operation known to make it is {context.place(node)}, {how}.",
            )
    for name in own:
        word = _word_of(tensors[name])
        if word:
            yield word, _of_saved(context, node, name, tensors[name])
    seen = captured.annotations.get(node)
    if seen is not None and _has_nan(seen.value):
        words = context.place(node)
        yield "NaN", f"The first operation known to make it is {words}, whose result has NaN in it."


def _of_saved(context: CheckContext, node: int, name: str, value: torch.Tensor) -> str:
    """Describe the first saved tensor that is not finite."""
    words = f"{context.place(node)}"
    if name.startswith("result"):
        return f"The first operation known to make it is {words}, whose result {_holds(value)}."
    start = f"It is first seen at {words}, whose {name} {_holds(value)}"
    for child, between in successors(context.captured.graph)[node].items():
        for edge in between.values():
            if edge["argument"] == name:
                data = context.captured.graph.nodes[child]
                source = "the leaf" if data["kind"] == "leaf" else "what came from"
                return f"{start}, {source} {described(context.captured.graph, child)}."
    without = context.captured.graph.nodes[node]["no_grad_inputs"]
    if any(each["argument"] == name for each in without):
        return f"{start}, which needs no grad: look at the data."
    return f"{start}."


def _holds(value: torch.Tensor | None) -> str:
    word = _word_of(value)
    if value is None or value.numel() == 1:
        return f"is {word}"
    return f"has {word} in it"


def _word_of(value: Any) -> str | None:
    """NaN or Inf, whichever a tensor has; None for neither, and where it cannot be read."""
    if not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS:
        return None
    if why_unreadable(value) is not None or everywhere(value, finite) is not False:
        return None
    return "Inf" if everywhere(value, lambda part: ~part.isnan()) else "NaN"


def _stored(context: CheckContext) -> Iterator[Finding]:
    """Leaves whose ``.grad`` has NaN or Inf, where no pass was recorded that shows why."""
    words = {
        node: word
        for node in context.leaves.values()
        if (leaf := context.leaf(node)) is not None and (word := _word_of(leaf.grad))
    }
    if not words:
        return
    names = [f"{context.name(node)}.grad" for node in words]
    found = " or ".join(sorted(set(words.values()), reverse=True))
    first = _first(context)
    where = f" {first[1]}" if first is not None else ""
    message = (
        f"{list_some(names)} {'has' if len(names) == 1 else 'have'} {found} in it"
        f" ({len(names)} of {len(context.leaves)} leaves).{where} No recorded backward pass shows "
        "which operation made it: run the step again under gradwalk.watch(), with backward in the "
        "block."
    )
    yield make(Finding, "nan", "error", list(words), message, {"leaves": float(len(words))})


def _birth(context: CheckContext) -> list[Finding]:
    """The operation that made NaN or Inf of finite gradients; nothing without such a one."""
    run = context.run
    birth = None if run is None else first_nan(context.captured, run)
    if birth is None or run is None:
        return []
    node, note = birth
    passed = [kept for kept in run.steps[node].grad_inputs if kept is not None]
    summary = next(kept for kept in passed if not is_finite(kept)).summarise()
    counts = {"NaN": summary["nan"], "Inf": summary["inf"], "numbers": summary["numel"]}
    numbers = {what: float(count) for what, count in counts.items() if count is not None}
    line = context.line(node)
    made = f" That node was made{at_line(line, text=True)}." if line is not None else ""
    arrived = [norm is not None and math.isfinite(norm) for _, norm in context.arrived.values()]
    if not arrived or not all(arrived) or run.error is not None:
        return [make(Finding, "nan", "error", [node], note + made, numbers)]
    made += (
        " No leaf received it: an operation or a hook after it dropped those numbers, as a mask "
        "does."
    )
    return [make(Finding, "nan", "info", [node], note + made, numbers)]
