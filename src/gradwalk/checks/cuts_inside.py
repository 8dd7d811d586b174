"""Findings about cuts that cost no parameter of the model its gradient, as far as `watch` saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from ..english import list_some, plural
from ..explain.constants_and_cuts import at_line, words_for
from ..graph.labels import described
from ..result import make
from ..tracing.annotations import cuts_of
from ..tracing.cuts import Cut
from ..tracing.operands import NO_DERIVATIVE
from .context import CheckContext
from .finding import Finding
from .terms import constant_terms

# Casts to integers and comparisons make masks: they count only where named tensors lose by them.
_MEANT = {"detach", "data", "no_grad", "inference_mode", "item", "numpy", "copy"}

_NOTED = {"derivative", NO_DERIVATIVE}  # wherever they are


def cuts_inside(context: CheckContext) -> Iterator[Finding]:
    """Find cuts, one note for each cause: many programs mean them.

    A cut within a module gets a note. One outside of modules gets it when it keeps named tensors
    from every gradient: a target is often detached on purpose. Cuts that cost a parameter of the
    model its gradient are warnings, which `parameter_findings` gives.
    """
    captured, called = context.captured, context.called
    ran = any(each.module is not None for each in captured.annotations.values())
    causes: dict[tuple[str, object], tuple[Cut, set[int], set[int]]] = {}
    for annotation in captured.annotations.values():
        for cut in annotation.cuts:
            if cut.how in _MEANT | _NOTED or cut.how.startswith("integer"):
                _, behind, alone = causes.setdefault(cut.cause, (cut, set(), set()))
                behind.update(id(t) for leaf in cut.leaves if (t := leaf()) is not None)
                alone.update(id(t) for leaf in cut.direct if (t := leaf()) is not None)
    terms = constant_terms(context)
    for cut, behind, alone in causes.values():
        if any(cut.cause == each.cause for each in terms):
            continue  # the finding about that term says it
        lost = [key for key in behind if not context.is_used(key)]
        if any(key in context.expected for key in lost):
            continue
        # Behind another cut, a tensor would get no gradient without this one either.
        names = [called.leaves[key] for key in lost if key in alone and key in called.leaves]
        is_by_chance = cut.module is None and ran and cut.how not in _NOTED
        if not names and (is_by_chance or cut.how.startswith("integer")):
            continue
        nodes = taken_by(context, cut)
        if not nodes:
            continue
        gets = "gets" if len(names) == 1 else "get"
        also = f" {list_some(sorted(names))} {gets} no gradient through it." if names else ""
        message = (
            f"{words_for(cut.how)}{_place_words(context, cut)} cuts the gradient: "
            f"{_taken(context, cut, nodes[0])} into "
            f"{described(captured.graph, nodes[0])} as a constant "
            f"({plural(len(nodes), 'node')}).{also}"
        )
        yield make(Finding, "cut", "info", nodes, message, {"nodes": len(nodes)})


def cuts_before_leaves(context: CheckContext) -> Iterator[Finding]:
    """Leaves that were computed from named tensors, of which gradient is lost on the way."""
    roots = {node for node, _ in context.captured.roots}
    named = {cut.cause for each in context.captured.annotations.values() for cut in each.cuts}
    for node in context.leaves.values():
        leaf = context.leaf(node)
        if node in roots or leaf is None or isinstance(leaf, torch.nn.Parameter):
            continue
        by_cause: dict[object, list[Cut]] = defaultdict(list)
        for cut in cuts_of(leaf):
            if cut.cause not in named:
                by_cause[cut.cause].append(cut)
        for cuts in by_cause.values():
            behind = {
                id(tensor) for cut in cuts for ref in cut.leaves if (tensor := ref()) is not None
            }
            lost = [key for key in behind if not context.is_used(key)]
            names = [context.called.leaves[key] for key in lost if key in context.called.leaves]
            if not names or any(key in context.expected for key in lost):
                continue
            message = (
                f"The leaf {described(context.captured.graph, node)} was computed from "
                f"{list_some(sorted(names))} by {words_for(cuts[0].how)}"
                f"{_place_words(context, cuts[0])}, so no gradient flows back there."
            )
            yield make(Finding, "cut", "info", [node], message)


def taken_by(context: CheckContext, cut: Cut) -> list[int]:
    """The nodes that took what a cut, or another one of its cause, left."""
    captured = context.captured
    annotated = captured.annotations.items()
    noted = [node for node, seen in annotated if cut.cause in (each.cause for each in seen.cuts)]
    # A call that made several nodes gave them all the same constants: one of them takes it.
    taking = [node for node in noted if captured.graph.nodes[node]["no_grad_inputs"]]
    return taking or noted


def within(context: CheckContext, cut: Cut) -> str:
    """The module that a cut was made in, for after other words: " inside of encoder"; or empty."""
    if cut.module is None:
        return ""
    return f", inside of {context.captured.module_roots.path_of(cut.module) or cut.module.root}"


def _taken(context: CheckContext, cut: Cut, node: int) -> str:
    """Name the input of a node, which may be computed from the tensor that was cut off."""
    for constant in context.captured.annotations[node].constants:
        if cut.cause not in (each.cause for each in constant.cuts):
            continue
        if constant.tensor is None:
            return "a number goes"
        tensor = constant.tensor()
        name = None if tensor is None else context.called.name_of(tensor)
        source = None if name else _computed_from(context, cut)
        computed = f", computed from {source}," if source else ""
        return f"the values of {name or 'a tensor'} of shape {constant.shape}{computed} go"
    return f"the values of a tensor of shape {cut.shape} go"


def _computed_from(context: CheckContext, cut: Cut) -> str | None:
    """The name of a variable of the program that the same cut left."""
    for name, reference in context.called.known.values():
        tensor = reference()
        if tensor is None or tensor.requires_grad:
            continue
        if any(each.cause == cut.cause for each in cuts_of(tensor)):
            return name
    return None


def _place_words(context: CheckContext, cut: Cut) -> str:
    """Where a cut was made: its line with the module, or the line that switched grad mode off."""
    if cut.region is not None:
        at, place = at_line(cut.region, text=True), ""
    else:
        at, place = at_line(cut.where, text=True), within(context, cut)
    if cut.own is not None and cut.own != (cut.region or cut.where):
        at += f", called{at_line(cut.own, text=True)}"
    return at + place
