"""Which calls of compiled code its backend fused into one kernel, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from torch.fx import Node

from ..graph.compiled import CannotOpenError, kernels_of
from ..graph.english import list_some, with_counts
from ..graph.inductor_text import VIEWS
from ..graph.kernels import Kernel
from .inside import Fused, Inner

_UNFUSED = "Its backend left no text of kernels behind: nothing is known to be fused."
_VIEW = "It only shows numbers of another tensor, so no kernel is told for it."
_UNKNOWN = "In which kernel it runs is not certain."
"""Operations that are named beside a call of the same kernel."""


def fused_inside(node: Any, calls: Mapping[Node, Inner]) -> Fused:
    """Which calls of a compiled node run in which kernel.

    Args:
        node: The autograd node.
        calls: The calls of its backward program, and what is drawn for them.

    Returns:
        What is known now: kernels are made when backward runs for the first time.
    """
    try:
        kernels = kernels_of(node)
    except CannotOpenError as why:
        return Fused({}, str(why))
    if not kernels:
        return Fused({}, _UNFUSED)
    by_name = {call.name: call for call in calls}
    found: dict[Inner, list[Kernel]] = {}
    for kernel in kernels:
        for name, op in kernel.calls.items():
            call = by_name.get(name)
            if call is not None and op == _packet(call.target):
                found.setdefault(calls[call], []).append(kernel)
    return Fused(found)


def put_kernels(calls: Iterable[Inner], fused: Fused) -> bool:
    """Note at calls which kernels run them.

    Args:
        calls: Calls of compiled code.
        fused: What is known of them.

    Returns:
        Whether something was not known before.
    """
    is_news = False
    for call in calls:
        known = fused.of.get(call)
        names = None if known is None else [each.name for each in known if not each.is_library]
        is_news = is_news or names != call.attributes.get("kernels")
        call.attributes["kernels"] = names
    return is_news


def _packet(target: Any) -> str:
    """The operation of "aten.mul.Tensor": "mul"."""
    parts = str(target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def said_of(fused: Fused, call: Inner) -> str:
    """A sentence on the kernel that a call runs in.

    Args:
        fused: What is known of the calls around it.
        call: One of them.
    """
    if fused.note:
        return fused.note
    kernels = fused.of.get(call)
    if kernels is None:
        return _VIEW if _packet(call.attributes["op"]) in VIEWS else _UNKNOWN
    (kernel, *more) = kernels
    if more:
        names = ", ".join(each.name for each in kernels)
        return f"It runs in {len(kernels)} kernels, each of which works it out anew: {names}."
    if kernel.is_library:
        return f"It is no part of a kernel: {kernel.name} runs it."
    others = Counter(op for name, op in kernel.calls.items() if name != call.attributes["fx_name"])
    if not others:
        alone = "in a kernel of its own" if kernel.is_whole else "in this kernel"
        return f"It runs {alone}: {kernel.name}."
    return f"It is fused with {list_some(with_counts(others))} into one kernel: {kernel.name}."
