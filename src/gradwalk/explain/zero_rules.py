"""Rules that say why an operation blocks every gradient, judged by its saved tensors.

At a bound or a tie a derivative is a matter of choice, and releases of torch differ. There the
node's own backward is asked. It is asked, too, for operations without a rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import Node

from ..backward.kept_gradients import KeptGradient
from ..derivatives.own_backward import passes_only_zeros
from ..english import plural
from ..torch_api.nodes import op_name, saved_names
from ..torch_api.reading import PART, count_where, everywhere
from ..torch_api.signatures import signature, states_zeros

Saved = dict[str, Any]
Test = Callable[[torch.Tensor, Saved], torch.Tensor]


@dataclass(frozen=True)
class Input:
    """One input of a node, and what the node saved."""

    node: Node
    argument: str | None  # its name in the forward call
    number: int  # its place in ``next_functions``
    saved: Saved

    def gets_zeros(self) -> bool:
        """Return whether the node's own backward passes zeros to it for a gradient of ones."""
        return passes_only_zeros(self.node, self.number) is True


@dataclass(frozen=True)
class Why:
    """Why an operation passes only zeros to an input."""

    because: str  # the reason, as a clause: "its input is nowhere above 0"
    remedy: str  # what to do
    factor: str | None = None  # the argument whose zeros block, if any
    extent: str = ""  # how many elements it is true of: "4 elements, 1 of them at a bound"
    by_rule: bool = True  # whether a rule knows this operation, not only its own backward
    is_weight: bool = False  # whether the factor is a single number, such as the weight of a term

    @property
    def words(self) -> str:
        """The reason and its extent."""
        return f"{self.because}: {self.extent}" if self.extent else self.because


Rule = Callable[[Input], Why | None]


def why_blocked(asked: Input) -> Why | None:
    """Say why an operation passes only zeros to an input; None if no rule says so."""
    name = op_name(asked.node)
    if name in FLAT:
        return _STEPS
    if name in _DRAWN:
        return Why(
            "its result is drawn at random, and torch has no derivative for that",
            "draw numbers that do not depend on parameters and transform them, as rsample() "
            "does, or use gumbel_softmax()",
        )
    if name in _OVERWRITTEN and asked.argument in ("self", None):
        return Why("it wrote other values over its input", "write into a new tensor")
    found = signature(name)
    if found is not None and states_zeros(found.formulas.get(asked.argument or "", "")):
        return Why(
            f"torch's derivative with respect to {asked.argument} is zero for all values",
            "use another function if it should pass a gradient",
            by_rule=False,
        )
    rule = _RULES.get(name)
    try:
        return rule(asked) if rule is not None and asked.saved else None
    except Exception:  # what it saved is packed, sparse, of a class that refuses to compare, ...
        return None


def may_be_measured(asked: Input) -> bool:
    """Return whether `why_measured` may find that a node blocks that no rule has found."""
    if op_name(asked.node) in _COMPLETE:
        return False
    sizes = [each.numel() for each in asked.saved.values() if isinstance(each, torch.Tensor)]
    multiplies = bool(sizes) or not _FACTORS.isdisjoint(saved_names(type(asked.node)))
    return multiplies and sum(sizes) <= _MOST_MEASURED


def why_measured(asked: Input) -> Why | None:
    """Ask the node's own backward whether it passes only zeros; None if not, or it cannot run."""
    if passes_only_zeros(asked.node, asked.number, most=_MOST_MEASURED) is not True:
        return None
    of = f" with respect to {asked.argument}" if len(asked.node.next_functions) > 1 else ""
    because = f"its derivative{of} is zero for the values that it has"
    return Why(because, "check its input", by_rule=False)


def slope_words(name: str, came: KeptGradient | None, went: KeptGradient | None) -> str | None:
    """Say that a slope was zero wherever a gradient came to an operation in a recorded pass.

    None for an operation that is not linear in pieces, whose zeros may be a sum or a tiny product.
    """
    if name not in _PIECES or came is None or went is None:
        return None
    incoming, outgoing = came.tensor, went.tensor
    if incoming is None or outgoing is None or incoming.shape != outgoing.shape:
        return None
    tiny = torch.finfo(incoming.dtype).smallest_normal
    if not everywhere(incoming, lambda part: (part == 0) | (part.abs() >= 2 * tiny)):
        return None
    count = count_where(incoming, lambda part: part != 0)
    elements = f"all {count:,} elements" if count > 1 else "the only element"
    return f"its derivative was 0 at {elements} that received a gradient"


_MOST_MEASURED = 2**16  # numbers of a node whose backward is run to learn about it
_FACTORS = frozenset({"alpha", "beta", "value", "weight", "other", "scale"})

_STEPS = Why(
    "its result is the same for inputs that differ a little",
    "use a function with a slope, or a straight-through estimator",
)


def numbered(**numbers: str) -> frozenset[str]:
    """Return the names of backward classes: ``numbered(Fill="01")``."""
    return frozenset(f"{name}Backward{digit}" for name, each in numbers.items() for digit in each)


FLAT = numbered(Sign="0", Floor="0", Ceil="0", Round="01", Trunc="0", Heaviside="0")
"""Operations whose derivative is zero wherever they have one."""

_DRAWN = numbered(Bernoulli="0", Poisson="0", Normal="123")
_OVERWRITTEN = numbered(
    Zero="0", Uniform="0", Exponential="0", Normal="0", Cauchy="0", Geometric="0", LogNormal="0"
) | numbered(Random="012", Bernoulli="12", Fill="0123")


_SCALE = "check the scale of its input"


def _flat(
    name: str,
    test: Test,
    because: str,
    remedy: str = _SCALE,
    argument: str | None = None,
) -> Rule:
    """Make the rule for an operation that blocks where a saved tensor passes a test everywhere."""

    def rule(asked: Input) -> Why | None:
        saved = asked.saved
        if argument not in (None, asked.argument):
            return None
        if not everywhere(saved[name], lambda part: test(part, saved)):
            return None
        extent = plural(saved[name].numel(), "element")
        return Why(because.format_map(saved), remedy, extent=extent)

    return rule


def _at(name: str, test: Test, because: str, remedy: str = _SCALE) -> Rule:
    """Make a `_flat` rule for points at which the node's own backward decides."""
    is_flat = _flat(name, test, because, remedy)

    def rule(asked: Input) -> Why | None:
        why = is_flat(asked)
        return why if why is not None and asked.gets_zeros() else None

    return rule


def _range(low: str | float, high: str | float) -> Rule:
    """Make the rule for a function that is flat beyond two bounds: numbers, or saved ones."""

    def rule(asked: Input) -> Why | None:
        if asked.argument not in ("self", None):
            return None
        least, most = (asked.saved.get(x) if isinstance(x, str) else x for x in (low, high))
        return _beyond(asked, asked.saved["self"], least, most)

    return rule


def _beyond(asked: Input, value: torch.Tensor, low: Any, high: Any) -> Why | None:
    """Judge an input by two bounds, each a number, a tensor or None."""
    least, most = (-math.inf if low is None else low), (math.inf if high is None else high)
    sizes = [each.numel() for each in (value, low, high) if isinstance(each, torch.Tensor)]
    if len(sizes) == 1:
        is_flat = everywhere(value, lambda part: (part <= least) | (part >= most))
        at = count_where(value, lambda part: (part == least) | (part == most)) if is_flat else 0
        count = value.numel()
    elif max(sizes) <= PART:  # bounds of its own for each number
        outside = (value <= least) | (value >= most)
        is_flat, count = bool(outside.all()), outside.numel()
        at = int(((value == least) | (value == most)).sum())
    else:
        return None
    if not is_flat or not count or (at and not asked.gets_zeros()):
        return None
    place = "at or beyond the bounds" if at else "outside"
    words = f"its input lies everywhere {place} of its range{_limits(low, high)}"
    return Why(words, _SCALE, extent=_counted(count, at, "at a bound"))


def _limits(low: Any, high: Any) -> str:
    ends = (("from", low), ("to", high))
    return "".join(f" {word} {end:g}" for word, end in ends if isinstance(end, (int, float)))


def _counted(count: int, some: int, where: str) -> str:
    """Count elements: "4 elements, 1 of them at a bound"."""
    parts = {0: "", count: f", all {where}" if count > 1 else f", {where}"}
    return plural(count, "element") + parts.get(some, f", {some:,} of them {where}")


def _clamped(asked: Input) -> Why | None:
    """Judge ``clamp``, whose bounds may be tensors with a gradient."""
    value: Any
    value, low, high = (asked.saved.get(each) for each in ("self", "min", "max"))
    match asked.argument:
        case "min" if high is None:
            return _never_taken(asked, value - low, "its input is nowhere below min")
        case "max" if low is None:
            return _never_taken(asked, high - value, "its input is nowhere above max")
        case "self" | None:
            return _beyond(asked, value, low, high)
    return None


def _never_taken(asked: Input, ahead: torch.Tensor, because: str) -> Why | None:
    """Judge an input by how far the other one is ahead of it: where both are equal, torch does."""
    if ahead.numel() > PART or not everywhere(ahead, lambda part: part >= 0):
        return None
    ties = int((ahead == 0).sum())
    if ties and not asked.gets_zeros():
        return None
    extent = _counted(ahead.numel(), ties, "at a tie")
    return Why(because, "check the scale of both", extent=extent)


def _where(asked: Input) -> Why | None:
    if asked.argument not in ("self", "other"):
        return None
    taken = asked.argument == "self"
    condition = asked.saved["condition"]
    if not everywhere(condition, lambda part: part != taken):
        return None
    return Why(
        f"its condition selects nothing of {asked.argument}",
        "check the condition",
        extent=plural(condition.numel(), "element"),
    )


def _product(one: str, other: str) -> Rule:
    """Make the rule for a product: the gradient of one factor is multiplied by the other."""

    def rule(asked: Input) -> Why | None:
        factor = {one: other, other: one}.get(asked.argument or "")
        if factor is None or not everywhere(asked.saved[factor], lambda value: value == 0):
            return None
        shape = tuple(asked.saved[factor].shape)
        if not shape:
            return Why(
                "it multiplies by 0", "check how that factor is computed", factor, is_weight=True
            )
        return Why(
            f"its other factor ({factor}) is zero everywhere",
            "check the mask or the operation that made those zeros",
            factor,
            f"shape {shape}",
        )

    return rule


def _scaled(asked: Input) -> Why | None:
    """Judge a normalisation, which multiplies its input's gradient by its weight."""
    if asked.argument != "input":
        return None
    if _is_of_single_numbers(asked.saved):
        return Why(
            "it normalises each number by itself, so its result is always its bias",
            "normalise over more than one number",
        )
    if not everywhere(asked.saved["weight"], lambda value: value == 0):
        return None
    return Why("its weight is zero everywhere", "start from another weight than 0", "weight")


def _is_of_single_numbers(saved: Saved) -> bool:
    if "normalized_shape" in saved:
        return math.prod(saved["normalized_shape"]) == 1
    if "group" in saved:
        return bool(saved["C"] * saved["HxW"] == saved["group"])
    return False


def _of_one_class(asked: Input) -> Why | None:
    """Judge a softmax, which gives 1 over a single number."""
    result, dim = asked.saved["result"], asked.saved["dim"]
    if not result.dim() or result.shape[dim] != 1:
        return None
    return Why(
        "it is taken over a dimension of one number, so its result never changes",
        "take another dimension, or for a single output a sigmoid",
    )


def _greater(sign: int) -> Rule:
    """Make the rule for the greater of two tensors, or with -1 for the smaller."""

    def rule(asked: Input) -> Why | None:
        one, two = asked.saved["self"], asked.saved["other"]
        if asked.argument not in ("self", "other") or max(one.numel(), two.numel()) > PART:
            return None
        ahead = sign * (two - one) if asked.argument == "self" else sign * (one - two)
        return _never_taken(asked, ahead, f"it takes nothing of {asked.argument}")

    return rule


_SATURATED = "it is saturated: its result is everywhere exactly"
_SHRUNK = _at(
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


def _rounded(asked: Input) -> Why | None:
    return _STEPS if asked.saved.get("rounding_mode") is not None else None


PRODUCTS: dict[str, Rule] = {
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

_PIECES: dict[str, Rule] = {
    "ReluBackward0": _flat(
        "result",
        lambda result, _: result <= 0,
        "a ReLU whose input is nowhere above 0",
        "check the initialisation and the learning rate, or use a leaky ReLU",
    ),
    "ThresholdBackward0": _at(
        "self",
        lambda value, saved: value <= saved["threshold"],
        "its input is nowhere above its threshold, {threshold:g}",
    ),
    "HardtanhBackward0": _range("min_val", "max_val"),
    "HardsigmoidBackward0": _range(-3, 3),
    **dict.fromkeys(numbered(Clamp="01", ClampMin="01", ClampMax="01"), _clamped),
    **dict.fromkeys(("SoftshrinkBackward0", "HardshrinkBackward0"), _SHRUNK),
    "AbsBackward0": _at("self", *_AT_ZERO),
    **dict.fromkeys(("MaximumBackward0", "FmaxBackward0"), _greater(1)),
    **dict.fromkeys(("MinimumBackward0", "FminBackward0"), _greater(-1)),
    "WhereBackward0": _where,
    "MaskedFillBackward0": _flat(
        "mask", lambda mask, _: mask, "its mask covers everything", "check the mask", "self"
    ),
}
"""Operations that are linear in pieces, number by number: their slope is zero or of size 1."""

_RULES: dict[str, Rule] = {
    **PRODUCTS,
    **_PIECES,
    "SigmoidBackward0": _flat(
        "result", lambda result, _: (result == 0) | (result == 1), f"{_SATURATED} 0 or 1"
    ),
    "TanhBackward0": _flat("result", lambda result, _: result.abs() == 1, f"{_SATURATED} -1 or 1"),
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
    "SgnBackward0": lambda asked: None if asked.saved["self"].is_complex() else _STEPS,
    "LinalgVectorNormBackward0": _at("result", *_AT_ZERO),
}

_COMPLETE = frozenset(PRODUCTS) | {"ReluBackward0"}
"""Operations whose rule finds every case, and whose backward may take long."""
