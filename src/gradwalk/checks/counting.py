"""Findings about counting: which tokens, targets and entries of a mask a loss counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from ..english import list_some, plural
from ..explain.constants_and_cuts import at_line
from ..graph.labels import is_pass_through
from ..result import make
from ..torch_api.reading import is_plain
from ..torch_api.saved_tensors import plain_value, signed
from ..tracing.steps import noted_counts
from .context import CheckContext
from .finding import Finding

_MEANS = frozenset({"MeanBackward0", "MeanBackward1"})
_LOSSES = ("NllLossBackward0", "NllLoss2DBackward0")
_SOFTMAX = ("SoftmaxBackward0", "SafeSoftmaxBackward0")
_MOST_READ = 2**22  # numbers
_UNEVEN = 2  # times as many targets
_LEFT = 0.25  # of the tokens


def counting_findings(context: CheckContext) -> Iterator[Finding]:
    """Find masks that a mean does not know, padding that counts, and passes of uneven size."""
    yield from _mean_of_masked(context)
    for node, tokens, padding in _embedded(context):
        found = [
            *_counted_padding(context, node, tokens, padding),
            *_padding_inside(context, node, tokens, padding),
            *_inverted(context, tokens, padding),
        ]
        yield from found or _reaching_padding(context, node, tokens, padding)
    yield from _uneven_passes(context)


def _found(nodes: list[int], message: str, **numbers: float) -> Iterator[Finding]:
    yield make(Finding, "counting", "info", nodes, message, numbers)


def _mean_of_masked(context: CheckContext) -> Iterator[Finding]:
    """A mask of zeros and ones, and then a mean that divides by all entries."""
    for node, keeps in _masks(context):
        ones, zeros = int(keeps.sum()), int((~keeps).sum())
        user = _mean_after(context, node) if ones and zeros else None
        if user is not None:
            message = (
                f"{context.place(user)} divides by all {keeps.numel()} entries, and the mask "
                f"before it keeps {ones} of them. For the mean of these, use (loss * mask).sum() / "
                "mask.sum()."
            )
            yield from _found([user, node], message, kept=ones, entries=keeps.numel())


def _masks(context: CheckContext) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield each operation that makes some entries of its result 0, and which ones it keeps."""
    graph = context.captured.graph
    for node, op in context.nodes_of(("MulBackward0", "IndexPutBackward0")):
        shape = tuple(graph.nodes[node]["shape"] or ())
        free = {each["argument"] for each in graph.nodes[node]["no_grad_inputs"]}
        saved = context.saved(node)
        seen = context.captured.annotations.get(node)
        constants = seen.constants if seen is not None else ()
        if op == "MulBackward0":
            found = [saved[each] for each in free if isinstance(saved.get(each), torch.Tensor)]
            if any(each.origin is not None and each.origin.is_random for each in constants):
                continue  # as of dropout
        elif all(each.values == 0 for each in constants if isinstance(each.values, (int, float))):
            found = [each for each in _flat(saved.values()) if each.dtype is torch.bool]
            found = found if any(isinstance(e.values, (int, float)) for e in constants) else []
        else:
            continue
        if len(found) != 1 or not is_plain(found[0]) or tuple(found[0].shape) != shape:
            continue
        (mask,) = found
        if 1 < mask.numel() <= _MOST_READ and (op != "MulBackward0" or _is_mask(mask)):
            yield node, mask == 1 if op == "MulBackward0" else ~mask


def _is_mask(tensor: torch.Tensor) -> bool:
    return bool(((tensor == 0) | (tensor == 1)).all())


def _flat(values: Iterable[object]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (each for each in value if isinstance(each, torch.Tensor))


def _mean_after(context: CheckContext, node: int) -> int | None:
    graph = context.captured.graph
    for _ in range(3):
        users = list(graph.pred[node])
        if len(users) != 1:
            return None
        (node,) = users
        if graph.nodes[node]["op"] in _MEANS:
            return node
        if not is_pass_through(graph.nodes[node]["op"]):
            return None
    return None


def _embedded(context: CheckContext) -> Iterator[tuple[int, torch.Tensor, int]]:
    """Yield each embedding of sequences, its tokens (N, T), and the token that is padding."""
    for node, _ in context.nodes_of(("EmbeddingBackward0",)):
        tokens = context.saved(node).get("indices")
        if not isinstance(tokens, torch.Tensor) or not is_plain(tokens) or tokens.dim() != 2:
            continue
        if not 1 < tokens.numel() <= _MOST_READ:
            continue
        padding = plain_value(context.captured.nodes[node], "padding_idx")
        padding = -1 if padding is None else signed(padding)
        padding = padding if padding >= 0 else _only_at_the_end(tokens)
        if padding >= 0 and bool((tokens == padding).any()):
            yield node, tokens.detach(), padding


def _only_at_the_end(tokens: torch.Tensor) -> int:
    """The token that fills the ends of some rows, and is nowhere else; -1 for none."""
    last = tokens[:, -1]
    value = int(last.mode().values)
    is_it = tokens == value
    ends = is_it.flip(1).cumprod(1).sum(1)
    is_alone = int(is_it.sum()) == int(ends.sum())
    return value if is_alone and int(ends.max()) > 1 and int(ends.min()) == 0 else -1


def _counted_padding(
    context: CheckContext, node: int, tokens: torch.Tensor, padding: int
) -> Iterator[Finding]:
    """Targets that are padding by the embedding, and that the loss does not ignore."""
    rows = plain_value(context.captured.nodes[node], "weight_sym_argsize_0")
    for loss, _ in context.nodes_of(_LOSSES):
        saved = context.saved(loss)
        target, given = saved.get("target"), saved.get("self")
        if not isinstance(target, torch.Tensor) or not isinstance(given, torch.Tensor):
            continue
        if not is_plain(target) or target.numel() * 2 < tokens.numel() or given.dim() < 2:
            continue
        if rows is not None and given.shape[1] != rows:
            continue  # the targets are something else
        ignored, counted = signed(saved["ignore_index"]), int((target == padding).sum())
        if ignored != padding and counted:
            message = (
                f"{context.place(loss)} counts padding: {counted} of {target.numel()} targets are "
                f"{padding}, which is padding in the embedding. To leave them out, pass "
                f"ignore_index={padding}."
            )
            numbers = {"padding": float(counted), "targets": float(target.numel())}
            yield from _found([loss, node], message, **numbers)


def _padding_inside(
    context: CheckContext, node: int, tokens: torch.Tensor, padding: int
) -> Iterator[Finding]:
    """A token that is padding by its number, and stands between others."""
    real = tokens != padding
    before = real.cumsum(1) > 0
    after = real.flip(1).cumsum(1).flip(1) > 0
    inside = int((~real & before & after).sum())
    if inside:
        message = (
            f"Token {padding} is the padding_idx of {context.place(node)}, and stands between "
            f"other tokens {plural(inside, 'time')}: it learns nothing there. Give padding a "
            "number that no token has."
        )
        yield from _found([node], message, inside=inside)


def _inverted(context: CheckContext, tokens: torch.Tensor, padding: int) -> Iterator[Finding]:
    """An attention that leaves out tokens and looks at the padding."""
    is_padding = tokens == padding
    for node, _ in context.nodes_of(_SOFTMAX):
        result = context.saved(node).get("result")
        if not isinstance(result, torch.Tensor) or not is_plain(result) or result.dim() < 3:
            continue
        if result.shape[-1] != tokens.shape[1] or result.numel() > _MOST_READ:
            continue
        if result.shape[0] % tokens.shape[0]:
            continue
        looked = (result != 0).reshape(tokens.shape[0], -1, tokens.shape[1]).any(1)
        left = ~looked
        if bool(left.any()) and not bool((left & is_padding).any()) and bool(is_padding.any()):
            count, pads = int(left.sum()), int(is_padding.sum())
            message = (
                f"The attention in {context.place(node)} leaves out {plural(count, 'token')} and "
                f"looks at all {plural(pads, 'place')} of padding: its mask is inverted. In "
                "key_padding_mask True means to leave out."
            )
            numbers = {"left out": float(count), "padding": float(pads)}
            yield make(Finding, "counting", "warning", [node], message, numbers)
            return


def _reaching_padding(
    context: CheckContext, node: int, tokens: torch.Tensor, padding: int
) -> Iterator[Finding]:
    """Where the recorded gradient arrives: at padding, or not at tokens."""
    run = context.run
    step = None if run is None else run.steps.get(node)
    kept = step.grad_outputs[0] if step is not None and step.grad_outputs else None
    grad = None if kept is None else kept.tensor
    if grad is None or not is_plain(grad) or grad.shape[:2] != tokens.shape:
        return
    arrives = (grad != 0).flatten(2).any(2)
    is_padding = tokens == padding
    wrong = int((arrives & is_padding).sum())
    if wrong:
        message = (
            f"Padding takes part in the loss: {wrong} of {int(is_padding.sum())} places of token "
            f"{padding} behind {context.place(node)} get a gradient. Mask them in the attention, "
            "the mean over positions or the loss."
        )
        yield from _found([node], message, places=wrong)
        return
    lost = int((~arrives & ~is_padding).sum())
    real = int((~is_padding).sum())
    if lost > _LEFT * real and bool(arrives.any()):
        message = (
            f"{lost} of {real} tokens that are not padding get no gradient behind "
            f"{context.place(node)}. If they should count, look at the mask and at the positions "
            "that the loss takes."
        )
        yield from _found([node], message, tokens=lost)


def _uneven_passes(context: CheckContext) -> Iterator[Finding]:
    """Passes of one step whose means are over very different numbers of targets."""
    step, counts = noted_counts(frozenset(context.leaves))
    if len(counts) < 2 or min(counts) * _UNEVEN > max(counts):
        return
    message = (
        f"The step{at_line(step)} adds up {len(counts)} backward passes with the mean over "
        f"{list_some([str(each) for each in counts], 6)} targets, each with the same weight. For "
        "equal weights of targets, use reduction='sum' and divide by the number in all passes."
    )
    yield from _found([], message, least=min(counts), most=max(counts))
