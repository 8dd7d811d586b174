"""The causes of a ``.grad`` as a table: each cause has a kind and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..tracing.annotate import Annotated
from .constants_and_cuts import at_line

KINDS = {
    "gradient": "Has a gradient",
    "recorded": "Has a gradient from this backward pass",
    "summed": "Has this pass's gradient, added to an earlier one or changed since",
    "unrecorded": "Has a gradient, but no pass was recorded",
    "elsewhere": "Has a gradient, but not from this loss",
    "frozen": "requires_grad is False",
    "cut": "Cut off from the loss",
    "unused": "Not part of the graph of the loss",
    "unknown": "Not part of the graph of the loss, reason unknown",
    "intermediate": "Not a leaf",
    "waiting": "In the graph, and .grad is None",
    "cleared": "None although backward ran",
    "zero": "Zero everywhere",
    "nan": "NaN or infinite",
}
"""The kinds of causes, in the order in which parameters are listed, each with its heading."""

_CAUSES: dict[str, dict[str, str]] = {
    "gradient": {
        "set": "{Grad} holds a gradient: the sum of all backward passes since it was last "
        "cleared. To learn about one loss, pass it too, as in explain_grad({w}, loss).",
    },
    "recorded": {
        "recorded": "{Grad} is the gradient from this backward pass.",
        "reduced": "This backward pass added to {grad}. It differs from the gradient of this "
        "rank, as after averaging over the ranks.",
        "unread": "This backward pass added to {grad}. The values cannot be compared with its "
        "gradient, so other contributions are unknown.",
    },
    "summed": {
        "accumulated": "{Grad} is this pass's gradient added to what it held before. Call "
        "zero_grad() before backward() if the passes should not add up.",
        "changed": "This backward pass added to {grad}, but something has changed it since: "
        "another pass, clipping or the program.",
        "differs": "This backward pass added to {grad}, but {grad} is not equal to its gradient. "
        "It was not empty before, or something has changed it since, such as clipping.",
    },
    "unrecorded": {
        "unrecorded": "{Grad} holds a gradient. This graph has not recorded a backward pass, so "
        "other losses may have contributed.",
        "inner, set": "{Grad} holds a gradient. {op} can reach {w} by a backward pass of its own, "
        "which was not recorded, so other losses may have contributed.",
    },
    "elsewhere": {
        "before step": "{Grad} is what it was before this backward pass, because the cursor is "
        "before the step that adds to it.",
        "not by pass": "{Grad} holds a gradient, but the recorded backward pass did not add to "
        "it: another loss, a hook or the program set it.",
        "stopped, set": "{Grad} holds a gradient, but the recorded backward pass stopped with an "
        "error{at}.",
        "elsewhere": "{Grad} holds a gradient, but another loss, a hook or the program set it. "
        "{outside}",
        "elsewhere, frozen": "{Grad} holds a gradient, but another loss, a hook or the program "
        "set it. {W} does not require grad and is not part of the graph of {loss}.",
    },
    "frozen": {
        "frozen, set": "{Grad} holds a gradient, but {requires_grad} is False by now, so backward "
        "no longer adds to it.",
        "frozen since": "{requires_grad} has been turned off since the graph of {loss} was "
        "recorded, so backward adds nothing to {grad}. Call {requires_grad_} and run the forward "
        "pass again.",
        "inference": "{W} was made under torch.inference_mode(){at}, which records no graph. "
        "Compute it outside inference_mode().",
        "constant": "{W} does not require grad, so backward computes no gradient for it: {lost}.",
        "integer": "{W} has dtype {dtype}, but only floating point and complex tensors have "
        "gradients. To learn it, call float() and then requires_grad_().",
        "frozen parameter": "{requires_grad} is False: the parameter is frozen. Call "
        "{requires_grad_} before the forward pass to unfreeze it.",
        "frozen": "{requires_grad} is False, so backward computes no gradient for {it}. Call "
        "{requires_grad_} before the forward pass.",
    },
    "cut": {
        "taken as constant": "{W} went into {op} while its requires_grad was False, so it is a "
        "constant for {loss}. Call {requires_grad_} before the forward pass.",
        "cut": "No gradient reaches {w} from {loss}: {lost}",
        "checkpoint": "No gradient reaches {w} from {loss}: checkpoint(use_reentrant=True) used "
        "{it}, or a tensor computed from it,{at} without a graph. It makes a graph only if a "
        "tensor that is passed directly, not in a list, dict or closure, requires grad. Pass such "
        "a tensor, or use use_reentrant=False.",
    },
    "unused": {
        "derivative": "{W} was used{at}. {Loss} takes a derivative of the result{derivative}, "
        "which does not depend on {w}: {reason}.",
        "leaf loss": "{W} is not part of the graph of {loss}, because {loss} is itself a leaf: it "
        "was made with requires_grad=True, not computed from other tensors. Call backward() on "
        "the tensor that your model computed, without Variable(...), torch.tensor(...) or "
        "requires_grad_().",
        "changed in place": "{W} is not part of the graph of {loss} since it was changed in "
        "place: {loss} was computed from its earlier value, or not from it. Use an operation that "
        "makes a new tensor, or compute {loss} afterwards.",
        "copied": "{W} is not part of the graph of {loss}.{copied}",
        "used elsewhere": "{W} is not part of the graph of {loss}. It was used{at}, but watch() "
        "saw no path from there to {loss}.",
        "unwatched": "{W} is not part of the graph of {loss}: {loss} was not computed from it, or "
        "only from values without a graph (detach(), a copy, a number). Run the forward pass "
        "under gradwalk.watch() and ask again to see where.",
        "unwatched, derivative": "{W} is not part of the graph of {loss}. The graph holds "
        "derivatives, and {w} may drop out of them: a bias that is only added does, and so does a "
        "weight behind ReLU, whose second derivative is zero. Run the forward pass under "
        "gradwalk.watch() to see more.",
        "unused": "{W} is not part of the graph of {loss}: watch() saw no path from {w} to "
        "{loss}. Use it in the forward pass, or start backward from a tensor computed from it.",
        "result unused": "{W} is not part of the graph of {loss}, although its module ran: {loss} "
        "does not use the result. Add the result to {loss}.",
        "no graph": "{Loss} does not require grad, so no gradient flows from it to {w}. It was "
        "computed under torch.no_grad(), from detached tensors, integers or plain numbers, or "
        "from nothing that requires grad.{again}",
        "no graph, watched": "{Loss} does not require grad, so no gradient flows from it to {w}. "
        "watch() saw no tensor that requires grad go into it. Compute it from tensors that do.",
    },
    "unknown": {
        "sharded": "{W} is a part of a parameter that FSDP2 shards over the ranks, so the graph "
        "of {loss} holds the gathered tensor instead. Ask with its module, as in "
        "explain_grad(model, loss).",
        "function": "{W} is not part of the graph of {loss}. It was used in the forward of an "
        "autograd.Function{at}, which records no graph. If {loss} depends on that, pass {w} to "
        "apply() as an input.",
        "read out": "{W} is not part of the graph of {loss}. Values computed from it were read as "
        "{what}{at}{more}, which ends the graph. If {loss} depends on those values, use torch "
        "functions instead.",
        "unknown": "{W} is not part of the graph of {loss}, and the reason is unknown: watch() "
        "did not see the whole forward pass{unseen}. {Loss} was not computed from {w}, or only by "
        "a way without a graph.",
    },
    "intermediate": {
        "intermediate": "{W} is not a leaf, so torch does not keep its gradient. Call "
        "{retain_grad} before backward() to keep it in .grad.",
        "converted": "{W} is not a leaf: a conversion of dtype or device, such as to(), made it "
        "from {leaf}, which gets the gradient. If {it} is to be learned, convert the numbers "
        "first and call requires_grad_() last; else call {retain_grad} before backward().",
    },
    "waiting": {
        "no loss": "{Grad} is None: no backward pass has added to it since it was last cleared. "
        "Call backward() on the loss. If you have, pass the loss too, as in explain_grad({w}, "
        "loss).",
        "waiting": "{W} is part of the graph of {loss}, but no backward pass has added to {grad} "
        "since it was last cleared. Call {call}. If it has run, read {grad} before zero_grad(). "
        "If it raised an error, correct that first.",
        "rewound": "{Grad} is None, because the cursor is before the step that adds to it. Move "
        "the cursor to the end of the pass.",
        "stopped": "{Grad} is None, because the recorded backward pass stopped with an error{at}. "
        "{remedy}",
        "handed back": "{Grad} is None. The recorded pass computed this gradient, but "
        "torch.autograd.grad returns gradients and leaves .grad alone.",
        "not reached": "{Grad} is None, because the recorded backward pass did not reach "
        "{w}{custom}.",
        "inner": "{W} is not a leaf of the graph of {loss}, but {op} can reach it by a backward "
        "pass of its own, as a reentrant checkpoint does. Call backward() and ask again.",
        "checkpoint, waiting": "{W} is not part of the graph of {loss}, but a reentrant "
        "checkpoint used {it}, or a tensor computed from it,{at}. Its own backward pass may reach "
        "{it}. Call backward() and ask again, or use use_reentrant=False.",
    },
    "cleared": {
        "ran": "{Grad} is None, although a backward pass has run through the graph of {loss} or a "
        "part of it. It was cleared since, as by zero_grad(), or that pass did not fill it "
        "(torch.autograd.grad, inputs=), or failed{custom}{late}. Read it right after backward().",
        "cleared": "{Grad} is None, although the recorded backward pass set it. It was cleared "
        "since, as by zero_grad().",
    },
    "zero": {
        "zero": "{Grad} is zero everywhere. Backward added only zeros, or something overwrote it, "
        "as zero_grad(set_to_none=False) does. To learn more, pass the loss too, as in "
        "explain_grad({w}, loss).",
        "zero, blocked": "{Grad} is zero everywhere, and {loss} adds nothing to it: {blocks}.",
        "zero, overwritten": "{Grad} is zero everywhere, but this backward pass gave {w} a "
        "gradient that is not zero. It was overwritten since, as by zero_grad(set_to_none=False).",
        "zero, freed": "{Grad} is zero everywhere. The reason is unknown, because saved tensors "
        "on the way are freed or packed by a hook. Ask before backward(), or after "
        "backward(retain_graph=True).",
        "zero, version": "{Grad} is zero everywhere. It was changed in place, as by "
        "zero_grad(set_to_none=False), or backward added only zeros to it{custom}. Read it "
        "before zero_grad(), or record the pass with a GraphWidget.",
        "zero, unseen": "{Grad} is zero everywhere. Backward added only zeros to it, or the "
        "program set it{custom}. The reason is unknown, because no operation blocks every gradient "
        "by itself and no pass was recorded. Record it with GraphWidget({code}).backward() and ask "
        "with the widget.",
        "zero, before step": "{Grad} is zero everywhere, as it was before this backward pass: the "
        "cursor is before the step that adds to it.",
        "zero, not by pass": "{Grad} is zero everywhere, and the recorded backward pass did not "
        "add to it: zero_grad(set_to_none=False), another loss, a hook or the program set it.",
        "zero, from the start": "{Grad} is zero everywhere, because this backward pass started "
        "from a gradient of zeros.",
        "zero, unread": "{Grad} is zero everywhere. The reason is unknown, because the recorded "
        "gradients on the way were not kept, or were changed in place since, as by "
        "zero_grad(set_to_none=False){custom}.",
        "zero, recorded": "{Grad} is zero everywhere. In this backward pass the gradient became "
        "zero {where}. diagnose() of the widget says more.",
        "zero, inner": "{Grad} is zero everywhere. {op} can reach {w} by a backward pass of its "
        "own, and what blocks the gradient there is unknown.",
        "zero, outside": "{Grad} is zero everywhere. {W} is not part of the graph of {loss}: "
        "zero_grad(set_to_none=False), another loss, a hook or the program set it.",
    },
    "nan": {
        "nan": "{Grad} contains {odd}, which an optimizer step would write into the values. After "
        "a recorded backward pass, GraphWidget({code}).diagnose() names the first operation that "
        "produced it.",
        "nan, recorded": "{Grad} contains {odd}, which an optimizer step would write into the "
        "values. In this backward pass, {op} was the first that received finite gradients and "
        "passed on NaN or Inf. diagnose() of the widget says more.",
        "nan, not by pass": "{Grad} contains {odd}, but the gradient from this backward pass does "
        "not: another loss, a hook or the program set it, or changed it.",
        "nan, outside": "{Grad} contains {odd}. {W} is not part of the graph of {loss}: another "
        "loss, a hook or the program set it.",
    },
}
"""By kind: each cause, and a sentence in which `filled` puts the names."""

_KIND_OF = {cause: kind for kind, causes in _CAUSES.items() for cause in causes}


@dataclass(frozen=True)
class Reason:
    """Why a ``.grad`` is as it is."""

    kind: str  # one of `KINDS`
    sentence: str  # the reason and what to do
    is_read: bool = True  # whether the values of the gradient were read, if there is one
    cause: str = ""  # one of `_CAUSES`


def filled(cause: str, name: str | None, loss: str, words: Mapping[str, str]) -> Reason:
    """Fill in the sentence of a cause, about a tensor of a name and a loss."""
    kind, within = _KIND_OF[cause], name or "it"
    names = {
        "W": name or "This tensor",
        "w": within,
        "it": within,
        "Grad": f"{name}.grad" if name else "The .grad of this tensor",
        "grad": f"{name}.grad" if name else "its .grad",
        "requires_grad": f"{name}.requires_grad" if name else "requires_grad",
        "requires_grad_": f"{name}.requires_grad_()" if name else "requires_grad_()",
        "retain_grad": f"{name}.retain_grad()" if name else "retain_grad() on it",
        "loss": loss,
        "Loss": "The loss" if loss == "the loss" else loss,
        "code": "loss" if loss == "the loss" else loss,
    }
    return Reason(kind, _CAUSES[kind][cause].format_map({**names, **words}), cause=cause)


def operation(captured: Annotated, node: int) -> str:
    """Name an operation, with its output's name and the line that made it."""
    data = captured.graph.nodes[node]
    seen = captured.annotations.get(node)
    name = f", {data['name']}" if data["name"] else ""
    return f"{data['op']} (node {node}{name}{at_line(seen.source if seen else None)})"
