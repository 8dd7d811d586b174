"""Why the ``.grad`` of one tensor is None, zero or what it is: the reason, and the sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from ..forward.annotate import Annotated
from ..forward.annotations import cuts_of
from ..graph.reading import everywhere, finite, why_unreadable
from ..graph.tensors import version_of
from .blocking import Block, Blocks, blocks_before, is_margin
from .extra_words import at_line, lost_by
from .loss_graph import LossGraph
from .outside import reason_outside
from .reason import Asked, Reason, operation

_MOST_BLOCKS = 2


def reason_of(tensor: torch.Tensor, name: str | None, graph: LossGraph | None) -> Reason:
    """Why the ``.grad`` of a tensor is as it is.

    Args:
        tensor: The tensor.
        name: What the user calls it.
        graph: The graph behind the loss; None when no loss was given.

    Returns:
        The reason, true of this very tensor; what is inferred says so.
    """
    asked = Asked(tensor, name)
    has_grad = tensor.is_leaf or tensor.retains_grad  # else torch warns when .grad is read
    grad = tensor.grad if has_grad else None
    if grad is not None:
        return _there(asked, grad, graph)
    node = graph.node_of(tensor) if graph is not None else None
    if not tensor.requires_grad:
        return _needs_no_grad(asked, graph, node)
    if graph is None:
        return _without_loss(asked) if has_grad else _intermediate(asked)
    if node is None:
        return reason_outside(asked, graph)
    if not has_grad:
        return _intermediate(asked)
    return _inside(asked, graph, node)


def _there(asked: Asked, grad: torch.Tensor, graph: LossGraph | None) -> Reason:
    is_zero = _holds(grad, lambda part: part == 0)
    if not is_zero:
        odd = _not_finite(grad)
        found = _not_a_number(asked, odd, graph) if odd else _held(asked, graph)
        return found if is_zero is False else replace(found, is_read=False)
    other = "" if graph is None else _other_ways(asked, graph)
    zero = f"{asked.its_grad} is zero everywhere"
    if graph is None:
        return Reason(
            "zero",
            f"{zero}: either backward passes have added nothing but zeros, or it was overwritten, "
            "as zero_grad(set_to_none=False) does; pass the loss as well to learn more, as in "
            f"explain_grad({asked.within}, loss).",
        )
    node = graph.node_of(asked.tensor)
    inner = graph.inner_node_of(asked.tensor)
    if node is None and inner is not None and graph.captured is not None:
        return Reason(
            "zero",
            f"{zero}: zero_grad(set_to_none=False) or another pass left such zeros, or they came "
            f"by a backward that {graph.captured.graph.nodes[inner]['op']} (node {inner}) runs of "
            "its own, and what lets nothing through there is not seen.",
        )
    if node is None or graph.captured is None:
        return Reason(
            "zero",
            f"{zero}, and {asked.within} is not part of the graph of {graph.name}: "
            f"zero_grad(set_to_none=False) leaves such zeros, and so does {other}.",
        )
    blocks = blocks_before(graph.captured, node)
    if blocks.found:
        adds = f"{zero}, and {graph.name} adds nothing to it"
        return Reason("zero", f"{adds}: {_blocked(graph.captured, blocks.found)}")
    custom = graph.custom_functions_before(node)
    return Reason("zero", _zero_without_block(zero, grad, blocks, custom))


def _held(asked: Asked, graph: LossGraph | None) -> Reason:
    """Of a gradient of numbers; which loss it is of is nowhere written down."""
    start = f"{asked.its_grad} holds a gradient"
    if graph is None:
        return Reason("gradient", f"{start}: {_ADDED}.")
    node, inner = graph.node_of(asked.tensor), graph.inner_node_of(asked.tensor)
    if node is None and inner is not None and graph.captured is not None:
        op = graph.captured.graph.nodes[inner]["op"]
        return Reason(
            "unsure",
            f"{start}, but whether {graph.name} has a part in it is not known: only {op} (node "
            f"{inner}) can reach {asked.within}, by a backward that it runs of its own; it is "
            f"{_ADDED}.",
        )
    if node is None:
        came = f"that came by {_other_ways(asked, graph)}"
        if asked.tensor.requires_grad:
            return Reason("elsewhere", f"{start} {came}. {reason_outside(asked, graph).sentence}")
        return Reason(
            "elsewhere",
            f"{start} {came}: {asked.within} does not require grad and is not part of the graph of "
            f"{graph.name}.",
        )
    none = f"{asked.attribute('requires_grad')} is False, so that a pass adds nothing to it now"
    if graph.backward_ran(node):
        return Reason(
            "gradient",
            f"{start}: a backward pass that may have added to it has run through the graph of "
            f"{graph.name}, or a part of it; so may passes of other losses, hooks and the program, "
            f"since it was last cleared{'' if asked.tensor.requires_grad else f'; {none}'}.",
        )
    alone = f"{asked.attribute('grad')} = None before {graph.code}.backward() leaves that of it"
    return Reason(
        "unsure",
        f"{start}, but whether {graph.name} has a part in it is not known, because nothing on the "
        "way from there has been freed, as a pass without retain_graph=True does: it is "
        f"{_ADDED}; {f'{alone} alone' if asked.tensor.requires_grad else none}.",
    )


_ADDED = (
    "what backward passes of any loss have added since it was last cleared, as hooks, clipping and "
    "the program have left it"
)


def _other_ways(asked: Asked, graph: LossGraph) -> str:
    """How a gradient gets to a tensor that is not part of the graph of a loss."""
    tensor = asked.tensor
    own = ", a custom Function that runs a backward of its own" if graph.has_functions else ""
    plain = tensor.is_leaf and tensor.requires_grad
    changed = "" if plain else f", or a pass before {asked.within} was changed in place"
    return f"a pass of another graph, a hook{own} or the program itself{changed}"


def _not_a_number(asked: Asked, odd: str, graph: LossGraph | None) -> Reason:
    start = f"{asked.its_grad} has {odd} in it, and an optimizer's step would write that into the "
    if graph is not None and graph.node_of(asked.tensor) is None:
        return Reason(
            "nan",
            f"{start}values: {asked.within} is not part of the graph of {graph.name}, so it came "
            f"by {_other_ways(asked, graph)}.",
        )
    loss = "loss" if graph is None else graph.code
    return Reason(
        "nan",
        f"{start}values: if it is of a backward pass of {loss}, GraphWidget({loss}).diagnose() "
        "names the operation that made the first after such a pass.",
    )


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
        f"its parts may have cancelled out{passed}, or an operation, a hook, a number too small "
        "for its dtype or the program itself (.grad = ...) has made it zero"
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
        f"{operation(captured, block.node)} lets nothing through ({block.because})"
        for block in blocks[:_MOST_BLOCKS]
    ]
    rest = len(blocks) - _MOST_BLOCKS
    more = f", and {rest} more block the other ways" if rest > 0 else ""
    ends = blocks[0].remedy
    if is_margin(captured, blocks[0].node):
        ends = "its result is only added up, as in a loss of margins that are all kept"
    return f"{', and '.join(parts)}{more}; {ends}."


def _needs_no_grad(asked: Asked, graph: LossGraph | None, node: int | None) -> Reason:
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
        f"{asked.attribute('requires_grad')} is False, so backward computes no gradient for it: "
        f"call {asked.attribute('requires_grad_()')} before the forward pass.",
    )


def _without_loss(asked: Asked) -> Reason:
    return Reason(
        "waiting",
        f"{asked.its_grad} is None because no backward pass has added to it since it was last "
        "cleared: call backward() on the loss; if you have, pass the loss as well to learn why, "
        f"as in explain_grad({asked.within}, loss).",
    )


def _intermediate(asked: Asked) -> Reason:
    return Reason(
        "intermediate",
        f"{asked.start} is not a leaf, so torch drops its gradient once it has been used: call "
        f"{asked.attribute('retain_grad()')}{'' if asked.name else ' on it'} before backward() to "
        "keep it in .grad.",
    )


def _inside(asked: Asked, graph: LossGraph, node: int) -> Reason:
    its_grad = asked.attribute("grad") if asked.name else "its .grad"
    custom = graph.custom_functions_before(node)
    if graph.backward_ran(node):
        passed = f", or the backward of {custom[0]} passed None" if custom else ""
        late = "" if asked.tensor.is_leaf else ", or came before retain_grad()"
        return Reason(
            "cleared",
            f"A backward pass has run through the graph of {graph.name}, or a part of it, but "
            f"{its_grad} is None: it has been cleared since (zero_grad(), or setting .grad to "
            "None), or that pass was told not to fill it (torch.autograd.grad, inputs=) or failed "
            f"on the way{late}{passed}; read it right after backward().",
        )
    passed = f"; the backward of {custom[0]} may also have passed None" if custom else ""
    return Reason(
        "waiting",
        f"{asked.start} is part of the graph of {graph.name}, but no backward pass has added to "
        f"{its_grad} since it was last cleared, if it was: call {graph.code}.backward(), or, if "
        f"that has run, look before zero_grad(){passed}.",
    )


def _not_finite(grad: torch.Tensor) -> str:
    """Which of "NaN" and "Inf" a gradient has; empty where it has none."""
    if _holds(grad, finite) is not False:
        return ""
    has_nan = _holds(grad, lambda part: ~part.isnan()) is False
    has_inf = _holds(grad, lambda part: ~part.isinf()) is False
    return " and ".join(word for word, has in (("NaN", has_nan), ("Inf", has_inf)) if has)


def _holds(grad: torch.Tensor, test: Callable[[torch.Tensor], torch.Tensor]) -> bool | None:
    """Whether something holds for every number of a gradient; None where that cannot be read."""
    if why_unreadable(grad) is not None:
        return None
    try:
        values = grad.detach().coalesce().values() if grad.is_sparse else grad
        return everywhere(values, test)
    except RuntimeError:  # on the meta device, ...
        return None
