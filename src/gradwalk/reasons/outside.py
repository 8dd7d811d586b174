"""Why a tensor is not part of the graph behind a loss: the reason, and the sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ..forward.cuts import Cut, Reading, alias_of
from ..graph.reading import own_part
from ..graph.tensors import version_of
from ..graph.words import described
from .copies import about_copy, taken_alias
from .extra_words import at_line, lost_by
from .loss_graph import LossGraph
from .reason import Asked, Reason, operation

_USE_IT = (
    "; use it in the forward pass (after requires_grad_()), or start backward from what was "
    "computed from it (what was made of it before watch() began is not seen)"
)


def reason_outside(asked: Asked, graph: LossGraph) -> Reason:
    """Why a tensor that needs grad is not part of the graph behind a loss."""
    taken = graph.taken_as_constant(asked.tensor)
    if taken is not None and graph.captured is not None:
        return Reason(
            "cut",
            f"{asked.start} went into {operation(graph.captured, taken)} while its requires_grad "
            f"was False, so it is a constant for {graph.name}: call "
            f"{asked.attribute('requires_grad_()')} before the forward pass.",
        )
    # Integers come last: they are the reason only where there is no other.
    cuts = sorted(graph.cuts_from(asked.tensor), key=lambda cut: cut.how.startswith("integer"))
    if cuts:
        return Reason("cut", _cut_off(asked, graph, cuts))
    alias = taken_alias(graph, asked.tensor)
    if alias is not None:
        lost = lost_by(alias_of(asked.tensor, alias.where), asked.within)
        return Reason("cut", f"No gradient reaches {asked.within} from {graph.name}: {lost}.")
    if asked.tensor.is_leaf and own_part(asked.tensor) is not None:
        return Reason(
            "unknown",
            f"{asked.start} is shared out over the ranks and is no leaf of the graph of "
            f"{graph.name}: where FSDP2 gathers it, what was gathered is the leaf; ask with its "
            "module, as in explain_grad(model, loss).",
        )
    inner = graph.inner_node_of(asked.tensor)
    if inner is not None and graph.captured is not None:
        op = graph.captured.graph.nodes[inner]["op"]
        return Reason(
            "waiting",
            f"{asked.start} is no leaf of the graph of {graph.name}, but {op} (node {inner}) can "
            "reach it: its backward may run one of its own, as a reentrant checkpoint does, and "
            f"add to {asked.its_grad}; call backward() and look again.",
        )
    readings = graph.readings_of(asked.tensor)
    if readings and (graph.captured is None or graph.is_watched):
        return Reason("unknown", _read_out(asked, graph, readings))
    if graph.captured is None:
        return Reason("unused", _without_graph(asked, graph))
    return _unused(asked, graph)


def _unused(asked: Asked, graph: LossGraph) -> Reason:
    """Why a tensor that nothing is seen of has no part in a graph."""
    if not asked.tensor.is_leaf and version_of(asked.tensor):
        return Reason(
            "unused",
            f"{asked.start} is not part of the graph of {graph.name} as it is since it was changed "
            f"in place: {graph.name} was computed from what it was before, or not from it; make a "
            "new tensor instead (relu() for relu_()), or compute from it afterwards.",
        )
    copied = about_copy(graph, asked.tensor, asked.within)
    if not graph.is_watched:
        return Reason(
            "unused",
            f"{asked.start} is not part of the graph of {graph.name}: {graph.name} was not "
            "computed from it, or only from values that were taken out of it (detach(), a copy, "
            "a number), or before it required grad; run the forward pass under gradwalk.watch() "
            "and ask again to see where."
            f"{copied}",
        )
    if graph.sees_all:  # of operations: an `if`, a copy.deepcopy() or a Parameter(...) is none
        return Reason(
            "unused",
            f"{asked.start} is not part of the graph of {graph.name}: "
            f"as far as watch() saw, {graph.name} was not computed from it while it required grad, "
            f"and no gradient flows to it{'' if copied else _USE_IT}.{copied}",
        )
    return Reason(
        "unknown",
        f"{asked.start} is not part of the graph of {graph.name}, and why is not known: watch() "
        "did not see all that led there: a part of the forward pass ran outside of it, is too long "
        f"to be followed, or went by a call that torch does not tell of{_unseen(graph)}; either "
        f"{graph.name} was not computed from {asked.within}, or its values came by a way without "
        f"a graph.{copied}",
    )


def _unseen(graph: LossGraph) -> str:
    if graph.captured is None or graph.unseen_leaf is None:
        return ""
    return f" (as {described(graph.captured.graph, graph.unseen_leaf)} was made)"


def _without_graph(asked: Asked, graph: LossGraph) -> str:
    start = f"{graph.start} does not require grad, so no gradient flows from it to {asked.within}"
    if graph.is_watched:
        return (
            f"{start}: it was made at a time when watch() saw nothing go into it that requires "
            "grad; compute it from tensors that do."
        )
    return (
        f"{start}: it was computed under torch.no_grad(), was detached, came by way of integers or "
        "plain numbers, or comes from nothing that requires grad; run the forward pass under "
        "gradwalk.watch() and ask again to see where it was cut."
    )


def _read_out(asked: Asked, graph: LossGraph, readings: Sequence[Reading]) -> str:
    last = readings[-1]
    if last.how == "function":
        return (
            f"{asked.start} is not part of the graph of {graph.name}, and why is not known for "
            f"sure: it was used in the forward of an autograd.Function{at_line(last.where)}, where "
            f"nothing is recorded; if {graph.name} was computed from that, its gradient ends "
            "there: pass it to apply() as an input, or, of a checkpoint, use use_reentrant=False."
        )
    what = "a NumPy array" if last.how == "numpy" else "Python numbers"
    others = len(readings) - 1
    more = f" (and at {others} more line{'s' * (others > 1)})" if others else ""
    return (
        f"{asked.start} is not part of the graph of {graph.name}, and why is not known for sure: "
        f"values of it, or computed from it, were read as {what}"
        f"{at_line(last.where, text=True)}{more}, and what a program makes of those is not seen; "
        f"if {graph.name} was computed from them, that is where its gradient ends: stay with torch "
        "functions there."
    )


def _cut_off(asked: Asked, graph: LossGraph, cuts: Sequence[Cut]) -> str:
    cut = cuts[0]
    own = cut.source() is asked.tensor
    source = asked.within if own else f"a tensor that was computed from {asked.within}"
    others = len(cuts) - 1
    more = f" (and the like at {others} more place{'s' * (others > 1)})" if others > 0 else ""
    return f"No gradient reaches {asked.within} from {graph.name}: {lost_by(cut, source)}{more}."
