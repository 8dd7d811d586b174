"""Why the ``.grad`` of one tensor is None, zero or what it is: the reason, and the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..forward.annotate import Annotated
from ..forward.annotations import cuts_of
from ..forward.cuts import Cut, Reading, alias_of
from ..graph.reading import everywhere, why_unreadable
from ..graph.tensors import version_of
from ..graph.words import described
from .blocking import Block, Blocks, blocks_before, is_margin
from .extra_words import at_line, lost_by
from .loss_graph import LossGraph

KINDS = {
    "gradient": "Has a gradient",
    "frozen": "requires_grad is False",
    "cut": "Cut off from the loss",
    "unused": "Not part of the graph of the loss",
    "unknown": "Not part of the graph of the loss, for a reason that is not known",
    "intermediate": "Not a leaf",
    "waiting": "In the graph, and .grad is None",
    "cleared": "None although backward ran",
    "zero": "Zero everywhere",
    "nan": "NaN or infinite",
}
"""The kinds of reasons, in the order in which parameters are listed, and what to head them with."""

_MOST_BLOCKS = 2


@dataclass(frozen=True)
class Reason:
    """Why a ``.grad`` is as it is.

    Attributes:
        kind: One of `KINDS`.
        sentence: The reason with its remedy.
    """

    kind: str
    sentence: str


@dataclass(frozen=True)
class _Asked:
    """What was asked about: the tensor, its name for the start of a sentence, and for within."""

    tensor: torch.Tensor
    name: str | None

    @property
    def start(self) -> str:
        return self.name or "This tensor"

    @property
    def within(self) -> str:
        return self.name or "it"

    def attribute(self, what: str) -> str:
        """An attribute or call of it, as code where it has a name: "w.grad"."""
        return f"{self.name}.{what}" if self.name else what

    @property
    def its_grad(self) -> str:
        return f"{self.name}.grad" if self.name else "The .grad of this tensor"


def reason_of(tensor: torch.Tensor, name: str | None, graph: LossGraph | None) -> Reason:
    """Why the ``.grad`` of a tensor is as it is.

    Args:
        tensor: The tensor.
        name: What the user calls it.
        graph: The graph behind the loss; None when no loss was given.

    Returns:
        The reason, true of this very tensor; what is inferred says so.
    """
    asked = _Asked(tensor, name)
    has_grad = tensor.is_leaf or tensor.retains_grad  # else torch warns when .grad is read
    grad = tensor.grad if has_grad else None
    if grad is not None:
        return _there(asked, grad, graph)
    node = graph.node_of(tensor) if graph is not None else None
    if not tensor.requires_grad:
        return _needs_no_grad(asked, graph, node)
    if graph is None:
        return _without_loss(asked)
    if node is None:
        return _outside(asked, graph)
    if not has_grad:
        return _intermediate(asked)
    return _inside(asked, graph, node)


def reason_outside(tensor: torch.Tensor, name: str, graph: LossGraph) -> Reason:
    """Why a tensor that needs grad is not part of the graph behind a loss."""
    return _outside(_Asked(tensor, name), graph)


def _there(asked: _Asked, grad: torch.Tensor, graph: LossGraph | None) -> Reason:
    if not _is_zero(grad):
        odd = _not_finite(grad)
        if odd:
            return Reason(
                "nan",
                f"{asked.its_grad} has {odd} in it, and an optimizer's step would write that into "
                "the values: GraphWidget(loss).diagnose() names the operation that made the first "
                "after a backward pass.",
            )
        return Reason(
            "gradient",
            f"{asked.its_grad} holds a gradient: the sum of what backward passes have added since "
            "it was last cleared.",
        )
    zero = f"{asked.its_grad} is zero everywhere"
    if graph is None:
        return Reason(
            "zero",
            f"{zero}: either that is the gradient, or zero_grad(set_to_none=False) has overwritten "
            f"it; pass the loss as well to learn more, as in explain_grad({asked.within}, loss).",
        )
    node = graph.node_of(asked.tensor)
    inner = graph.inner_node_of(asked.tensor)
    if node is None and inner is not None and graph.captured is not None:
        return Reason(
            "zero",
            f"{zero}: it came by a backward that {graph.captured.graph.nodes[inner]['op']} (node "
            f"{inner}) runs of its own, and what lets nothing through there is not seen.",
        )
    if node is None or graph.captured is None:
        return Reason(
            "zero",
            f"{zero}, and {asked.within} is not part of the graph of {graph.name}, so it is not "
            f"from there: zero_grad(set_to_none=False) leaves such zeros, and so does an earlier "
            "backward pass from elsewhere.",
        )
    blocks = blocks_before(graph.captured, node)
    if blocks.found:
        return Reason("zero", f"{zero} because {_blocked(graph.captured, blocks.found)}")
    custom = graph.custom_functions_before(node)
    return Reason("zero", _zero_without_block(zero, grad, blocks, custom))


def _zero_without_block(
    zero: str, grad: torch.Tensor, blocks: Blocks, custom: Sequence[str]
) -> str:
    # A gradient that one pass stored is of version 0; adding to it and clearing it count up.
    overwritten = "zero_grad(set_to_none=False) has overwritten it, or " if version_of(grad) else ""
    if blocks.unknown:
        return (
            f"{zero}: {overwritten}an operation on the way may let nothing through, which cannot "
            "be told, because what the operations saved is packed by a hook or was freed by "
            "backward; without such hooks, ask before backward(), or after "
            "backward(retain_graph=True)."
        )
    passed = f", the backward of {custom[0]} may have passed zeros" if custom else ""
    causes = (
        f"its parts may have cancelled out{passed}, or an operation, a hook or a number too small "
        "for its dtype has made it zero"
    )
    if overwritten:
        return (
            f"{zero}: {overwritten}{causes}; read it before zero_grad(), or let diagnose() of a "
            "GraphWidget say, after its backward(), where it became zero."
        )
    return (
        f"{zero}, although no operation alone is seen to block the way: {causes}; diagnose() of a "
        "GraphWidget says, after its backward(), where."
    )


def _blocked(captured: Annotated, blocks: Sequence[Block]) -> str:
    parts = [
        f"{_operation(captured, block.node)} lets nothing through ({block.because})"
        for block in blocks[:_MOST_BLOCKS]
    ]
    rest = len(blocks) - _MOST_BLOCKS
    more = f", and {rest} more block the other ways" if rest > 0 else ""
    ends = blocks[0].remedy
    if is_margin(captured, blocks[0].node):
        ends = "its result is only added up, as in a loss of margins that are all kept"
    return f"{', and '.join(parts)}{more}; {ends}."


def _operation(captured: Annotated, node: int) -> str:
    data = captured.graph.nodes[node]
    seen = captured.annotations.get(node)
    name = f", {data['name']}" if data["name"] else ""
    return f"{data['op']} (node {node}{name}{at_line(seen.source if seen else None)})"


def _needs_no_grad(asked: _Asked, graph: LossGraph | None, node: int | None) -> Reason:
    tensor = asked.tensor
    if node is not None:
        return Reason(
            "frozen",
            f"requires_grad of {asked.within} has been turned off since the graph of "
            f"{graph.name if graph else 'the loss'} was recorded, so backward adds nothing to it: "
            f"call {asked.attribute('requires_grad_()')} and run the forward pass again.",
        )
    if tensor.is_inference():
        where = next((at_line(cut.where) for cut in cuts_of(tensor)), "")
        return Reason(
            "frozen",
            f"{asked.start} was made under torch.inference_mode(){where}, which records no graph: "
            "compute it outside of inference_mode().",
        )
    cuts = cuts_of(tensor)
    if cuts:
        return Reason(
            "frozen",
            f"{asked.start} needs no grad, so backward computes no gradient for it: "
            f"{lost_by(cuts[0], 'a tensor that requires grad')}.",
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return Reason(
            "frozen",
            f"{asked.start} is of dtype {tensor.dtype}, and only floating point and complex "
            f"tensors can have gradients: use {asked.attribute('float()')}, and requires_grad_() "
            "on the result, if it is to be learned.",
        )
    if isinstance(tensor, torch.nn.Parameter):
        return Reason(
            "frozen",
            f"{asked.attribute('requires_grad')} is False: the parameter is frozen, so backward "
            f"computes no gradient for it; {asked.attribute('requires_grad_()')} before the "
            "forward pass unfreezes it.",
        )
    return Reason(
        "frozen",
        f"{asked.attribute('requires_grad')} is False, so backward computes no gradient for "
        f"{asked.within if asked.name is None else 'it'}: call "
        f"{asked.attribute('requires_grad_()')} before the forward pass.",
    )


def _without_loss(asked: _Asked) -> Reason:
    if not asked.tensor.is_leaf and not asked.tensor.retains_grad:
        return _intermediate(asked)
    return Reason(
        "waiting",
        f"{asked.its_grad} is None because no backward pass has added to it since it was last "
        "cleared: call backward() on the loss; if you have, pass the loss as well to learn why, "
        f"as in explain_grad({asked.within}, loss).",
    )


def _intermediate(asked: _Asked) -> Reason:
    return Reason(
        "intermediate",
        f"{asked.start} is not a leaf, so torch drops its gradient once it has been used: call "
        f"{asked.attribute('retain_grad()')}{'' if asked.name else ' on it'} before backward() to "
        "keep it in .grad.",
    )


def _outside(asked: _Asked, graph: LossGraph) -> Reason:
    taken = graph.taken_as_constant(asked.tensor)
    if taken is not None and graph.captured is not None:
        return Reason(
            "cut",
            f"{asked.start} went into {_operation(graph.captured, taken)} while its requires_grad "
            f"was False, so it is a constant for {graph.name}: call "
            f"{asked.attribute('requires_grad_()')} before the forward pass.",
        )
    # Those by way of integers last: they are the reason only when there is no other.
    cuts = sorted(graph.cuts_from(asked.tensor), key=lambda cut: cut.how.startswith("integer"))
    if cuts:
        return Reason("cut", _cut_off(asked, graph, cuts))
    if graph.took_alias_of(asked.tensor):
        lost = lost_by(alias_of(asked.tensor), asked.within)
        return Reason("cut", f"No gradient reaches {asked.within} from {graph.name}: {lost}.")
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
    twin = graph.twin_of(asked.tensor)
    copied = ""
    if twin is not None:
        copied = (
            f" {described(graph.captured.graph, twin)} of this graph holds the same numbers: if it "
            f"is a copy of {asked.within} (as by deepcopy(), clone() or functional_call), the copy "
            "gets the gradient."
        )
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
            "and no gradient flows to it; use it in the forward pass (after requires_grad_()), or "
            "start backward from what was computed from it."
            f"{copied}",
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


def _without_graph(asked: _Asked, graph: LossGraph) -> str:
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


def _read_out(asked: _Asked, graph: LossGraph, readings: Sequence[Reading]) -> str:
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


def _cut_off(asked: _Asked, graph: LossGraph, cuts: Sequence[Cut]) -> str:
    cut = cuts[0]
    own = cut.source() is asked.tensor
    source = asked.within if own else f"a tensor that was computed from {asked.within}"
    others = len(cuts) - 1
    more = f" (and the like at {others} more place{'s' * (others > 1)})" if others > 0 else ""
    return f"No gradient reaches {asked.within} from {graph.name}: {lost_by(cut, source)}{more}."


def _inside(asked: _Asked, graph: LossGraph, node: int) -> Reason:
    its_grad = asked.attribute("grad") if asked.name else "its .grad"
    if graph.backward_ran(node):
        custom = graph.custom_functions_before(node)
        passed = f", or the backward of {custom[0]} passed None" if custom else ""
        return Reason(
            "cleared",
            f"A backward pass has run through the graph of {graph.name}, but {its_grad} is None: "
            "it has been cleared since (zero_grad(), or setting .grad to None), or that pass was "
            f"told not to fill it (torch.autograd.grad, inputs=){passed}; read it right after "
            "backward().",
        )
    custom = graph.custom_functions_before(node)
    passed = f"; the backward of {custom[0]} may also have passed None" if custom else ""
    return Reason(
        "waiting",
        f"{asked.start} is part of the graph of {graph.name}, but no backward pass has added to "
        f"{its_grad} since it was last cleared, if it was: call "
        f"{graph.name if graph.name != 'the loss' else 'loss'}.backward(), or, if that has run, "
        f"look before zero_grad(){passed}.",
    )


def _not_finite(grad: torch.Tensor) -> str:
    """Which of "NaN" and "Inf" a gradient has; empty where it has none."""
    if why_unreadable(grad) is not None:
        return ""
    try:
        values = grad.detach().coalesce().values() if grad.is_sparse else grad
        if everywhere(values, torch.isfinite) is not False:
            return ""
        has_nan = everywhere(values, lambda part: ~part.isnan()) is False
        has_inf = everywhere(values, lambda part: ~part.isinf()) is False
    except (RuntimeError, NotImplementedError):  # on the meta device, ...
        return ""
    return " and ".join(word for word, has in (("NaN", has_nan), ("Inf", has_inf)) if has)


def _is_zero(grad: torch.Tensor) -> bool:
    if why_unreadable(grad) is not None:
        return False
    try:
        values = grad.detach().coalesce().values() if grad.is_sparse else grad
        return bool(everywhere(values, lambda part: part == 0))
    except (RuntimeError, NotImplementedError):  # on the meta device, ...
        return False
