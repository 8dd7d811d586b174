"""Findings about what happens after backward: the optimizer, clipping, what ``.grad`` adds up."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ..backward.recorded_pass import passes_before
from ..english import list_some, plural
from ..result import make
from ..torch_api.reading import everywhere, is_plain
from ..torch_api.saved_tensors import read_saved
from ..tracing.annotate import Annotated
from ..tracing.values import used_leaf
from .context import CheckContext
from .finding import Finding

_LARGE = 1e6  # times the norm of the parameters
_CLIPPED = 0.1  # a gradient that is left of so much or less
_CLOSE = 1e-3
_LEAST_SCALE = 2**10
_COMPARED = 2**16  # numbers of one gradient


def update_findings(context: CheckContext) -> Iterator[Finding]:
    """Find what an optimizer leaves out, and what changed `.grad` beside this pass."""
    if context.optimizers:
        yield from held_otherwise(context)
        yield from _of_several(context)
        yield from _standing_still(context)
    yield from _changed_grads(context)
    yield from _cleared(context)
    yield from _cleared_before(context)
    yield from _large(context)


def held_otherwise(context: CheckContext) -> Iterator[Finding]:
    """Parameters of the graph that no optimizer holds, and what one holds in their stead."""
    left = [(n, context.leaf(n)) for key, n in context.leaves.items() if key not in context.held]
    missing = [(node, leaf) for node, leaf in left if isinstance(leaf, torch.nn.Parameter)]
    models = context.called.parameters.values()
    known = {key for parameters in models for key in parameters} | set(context.called.known)
    held = context.held if known else {}
    beside = [key for key in held if key not in known and not context.is_used(key)]
    strays = [str(tuple(held[key].shape)) for key in beside]
    if not missing and not strays:
        return
    # A second network may belong to another optimizer, as in a GAN.
    partly = [keys for keys in models if any(each in context.held for each in keys)]
    is_none_held = not any(key in context.held for key in context.leaves)
    is_part = any(id(leaf) in keys for _, leaf in missing for keys in partly)
    is_grave = bool(strays) or is_none_held or is_part
    parts: list[str] = []
    if missing:
        names = [
            context.captured.graph.nodes[node]["name"]
            or context.called.leaves.get(id(leaf))
            or f"a Parameter of shape {tuple(leaf.shape)}"
            for node, leaf in missing
        ]
        one = len(context.optimizers) == 1
        parts.append(
            f"{'The optimizer does not hold' if one else 'None of the optimizers holds'} "
            f"{list_some(names)}, {plural(len(names), 'parameter')} of this graph, so "
            f"{'its step leaves' if one else 'their steps leave'} "
            f"{'it as it is' if len(names) == 1 else 'them as they are'}."
        )
        if not is_grave:
            parts.append(f"Backward still fills {'its' if len(names) == 1 else 'their'} .grad.")
    if strays:
        parts.append(
            f"{plural(len(strays), 'tensor')} that it holds, of shape {list_some(strays)}, "
            f"{'is' if len(strays) == 1 else 'are'} neither in this graph nor in a known module. "
            "A replaced layer leaves such tensors."
        )
    message = (
        f"{' '.join(parts)} "
        + ("Pass " if is_grave else "If no other optimizer holds them, pass ")
        + "them to the optimizer, or make it after the last change of layers."
    )
    numbers: dict[str, float] = {"missing": len(missing), "held in vain": len(strays)}
    nodes = [node for node, _ in missing]
    yield make(Finding, "optimizer", "warning" if is_grave else "info", nodes, message, numbers)


def _of_several(context: CheckContext) -> Iterator[Finding]:
    """One graph with parameters of several optimizers, all of which backward fills."""
    leaves = context.leaves.items()
    held = ([context.name(n) for key, n in leaves if key in keys] for keys in context.held_by)
    used = list(filter(None, held))
    if len(used) < 2:
        return
    each = "; ".join(map(list_some, used))
    message = (
        f"{len(used)} optimizers hold parameters of this graph ({each}), and backward fills the "
        ".grad of all. If only one of them steps now, call zero_grad() on the others before their "
        "own backward()."
    )
    yield make(Finding, "optimizer", "info", [], message, {"optimizers": len(used)})


def _standing_still(context: CheckContext) -> Iterator[Finding]:
    """Parameters of the graph whose learning rate is 0."""
    groups = [group for optimizer in context.optimizers for group in optimizer.param_groups]
    still = [g["params"] for g in groups if g.get("lr") is not None and not float(g["lr"])]
    keys = {id(parameter) for parameters in still for parameter in parameters}
    nodes = [node for key, node in context.leaves.items() if key in keys]
    names = list(map(context.name, nodes))
    if names:
        message = (
            f"The learning rate of {list_some(names)} is 0 now, {plural(len(names), 'parameter')} "
            f"of this graph, so a step of most optimizers leaves "
            f"{'it as it is' if len(names) == 1 else 'them as they are'}. A warm-up may begin so."
        )
        yield make(Finding, "optimizer", "info", nodes, message, {"parameters": len(names)})


def _changed_grads(context: CheckContext) -> Iterator[Finding]:
    """Where ``.grad`` is not what the pass gave alone."""
    if not _is_settled(context):
        return
    added: list[int] = []
    shares: list[tuple[int, float]] = []
    before = _before(context)
    for node, (kept, length) in context.arrived.items():
        leaf = context.leaf(node)
        grad = leaf.grad if leaf is not None else None
        if kept is None or kept.tensor is None or kept.changed or grad is None or not length:
            continue
        if before.get(node):
            added.append(node)
            continue
        # A reduced gradient is a sum over ranks, and this process knows only its own part.
        share = 0 if node in context.reduced else _share(kept.tensor, grad, length)
        if share is None and node not in before:
            added.append(node)
        elif share:
            shares.append((node, share))
    scale = _loss_scale(context)
    if added:
        yield _added(context, added, is_known=bool(before))
    elif shares:
        yield from (_scaled(context, shares, scale) if scale else ()) or _clipped(shares)


def _loss_scale(context: CheckContext) -> float | None:
    """The factor by which a GradScaler scaled the loss; None where it did not."""
    (node, _), *more = context.captured.roots
    if more or context.captured.graph.nodes[node]["op"] != "MulBackward0":
        return None
    seen = context.captured.annotations.get(node)
    taken = [
        (each.tensor(), each.values)
        for each in (seen.constants if seen is not None else ())
        if each.tensor is not None
    ] or [
        (each.value, each.value.item())
        for each in read_saved(context.captured.nodes[node])
        if isinstance(each.value, torch.Tensor) and is_plain(each.value)
        if not each.value.dim() and not each.changed
    ]
    for tensor, scale in taken:
        if tensor is None or tensor.dtype != torch.float32 or not isinstance(scale, float):
            continue
        is_own = context.called.name_of(tensor) is not None  # a weight of the program
        if not tensor.requires_grad and not is_own:
            return scale if _is_scale(scale) else None
    return None


def _is_scale(factor: float) -> bool:
    """Whether a factor may be the scale of a GradScaler, which doubles and halves it."""
    power = math.log2(factor) if factor >= _LEAST_SCALE * (1 - _CLOSE) else 0.5
    return abs(power - round(power)) < _CLOSE


def _scaled(context: CheckContext, shares: list[tuple[int, float]], scale: float) -> list[Finding]:
    """Gradients of a scaled loss that were clipped, or used by a step, before unscaling."""
    least, most = min(share for _, share in shares), max(share for _, share in shares)
    nodes = [node for node, _ in shares]
    if most - least > _CLOSE * most or most < (1 + _CLOSE) / scale:
        return []
    if most < 1 - _CLOSE:
        what = "clipped while they were scaled"
        remedy = "Call scaler.unscale_(optimizer) before clip_grad_norm_()."
    elif most < 1 + _CLOSE and any(_has_changed(context, node) for node in nodes):
        what = "not unscaled before the parameters were changed"
        remedy = "Call scaler.step(optimizer) instead of optimizer.step()."
    else:
        return []
    message = (
        f"The loss was scaled by {scale:g}, as by a GradScaler. The .grad of "
        f"{plural(len(nodes), 'parameter')} {'was' if len(nodes) == 1 else 'were'} {what}. "
        f"{remedy}"
    )
    return [make(Finding, "scaled", "warning", nodes, message, {"scale": scale})]


def _has_changed(context: CheckContext, node: int) -> bool:
    """Whether a leaf has changed since the graph used it, as by a step of an optimizer."""
    return used_leaf(context.captured, node, had_run=True).changed is True


def _is_settled(context: CheckContext) -> bool:
    """Whether the pass has ended, and ``.grad`` holds all of it."""
    recording, run = context.recording, context.run
    if recording is None or run is None or run.state != "done":
        return False
    return not recording.owned or recording.cursor >= len(run.steps)


def _is_empty(grad: torch.Tensor | None) -> bool:
    """Whether a ``.grad`` holds nothing, or nothing but zeros."""
    return grad is None or (
        grad.layout is torch.strided and everywhere(grad, lambda part: part == 0) is True
    )


def _cleared(context: CheckContext) -> Iterator[Finding]:
    """Where ``.grad`` holds nothing of what the pass gave."""
    if not _is_settled(context):
        return
    nodes = [
        node
        for node, (_, length) in context.arrived.items()
        if length and node not in context.reduced
        if (leaf := context.leaf(node)) is not None and _is_empty(leaf.grad)
    ]
    if not nodes:
        return
    names = [context.name(node) for node in nodes]
    known = [used_leaf(context.captured, node, had_run=True).changed for node in nodes]
    lost = "If the optimizer has not stepped, its step() has no gradient: call"
    if not any(each is not False for each in known):
        lost = "Its values are as they were, so no step has used this gradient. To use it, call"
    message = (
        f".grad of {list_some(names)} has been cleared since this backward pass, as by "
        f"zero_grad(). {lost} zero_grad() before the first backward() of a step, or after step()."
    )
    yield make(Finding, "cleared", "info", nodes, message, {"leaves": len(nodes)})


def _cleared_before(context: CheckContext) -> Iterator[Finding]:
    """An earlier pass through the same leaves, whose gradients were cleared and never used."""
    if not context.optimizers or context.run is None or not _is_settled(context):
        return
    for node, (kept, length) in context.arrived.items():
        leaf = context.leaf(node)
        grad = None if leaf is None else leaf.grad
        if kept is None or kept.tensor is None or grad is None or not length:
            return
        if abs((_share(kept.tensor, grad, length) or 0) - 1) > _CLOSE:
            return  # it holds more than the gradient of this pass
    for source in passes_before(context.run):
        captured = source.captured
        leaves = {id(leaf): node for node, leaf in captured.leaves()}
        if not isinstance(captured, Annotated) or leaves.keys() != context.leaves.keys():
            continue
        held = [node for key, node in leaves.items() if key in context.held]
        if held and all(used_leaf(captured, n, had_run=True).changed is False for n in held):
            message = (
                f"An earlier backward pass filled the same {plural(len(held), 'parameter')}. Their "
                ".grad was cleared before this pass, and they have not changed, so no step has "
                "used that gradient (inferred). To add up several passes, call zero_grad() once "
                "for each step()."
            )
            numbers: dict[str, float] = {"leaves": len(held)}
            nodes = [context.leaves[key] for key in leaves if key in context.held]
            yield make(Finding, "cleared", "info", nodes, message, numbers)
        return


def _large(context: CheckContext) -> Iterator[Finding]:
    """Gradients that are large beside what they are to change."""
    own = {
        node: leaf
        for node in context.arrived
        if isinstance(leaf := context.leaf(node), torch.nn.Parameter) and is_plain(leaf)
    }
    nodes = list(own)
    gradient = math.hypot(*(context.arrived[node][1] or 0.0 for node in own))
    size = math.hypot(*(float(torch.linalg.vector_norm(leaf)) for leaf in own.values()))
    if not size or not math.isfinite(gradient) or not gradient > _LARGE * size:
        return
    ratio = gradient / size
    message = (
        f"The gradients of the {plural(len(nodes), 'Parameter')} have a norm of {gradient:.3g} "
        f"altogether, {ratio:.3g} times the norm of the parameters ({size:.3g}). A step of "
        f"plain SGD with a learning rate above {_rounded_up(1 / ratio)} overwrites them: check the "
        "scale of the loss and of the data."
    )
    yield make(Finding, "large", "info", nodes, message, {"norm": gradient, "ratio": ratio})


def _rounded_up(number: float) -> str:
    """A number of one digit that is not smaller."""
    power = 10.0 ** math.floor(math.log10(number))
    return f"{math.ceil(number / power) * power:.1g}"


def _before(context: CheckContext) -> dict[int, bool]:
    """Leaf -> whether its ``.grad`` held something before the pass, of one that gradwalk ran."""
    run = context.run
    found: dict[int, bool] = {}
    for timeline in run.grads.timelines if run is not None and run.grads is not None else ():
        first = timeline.moments[0]
        held = first.values if first.values is not None else first.norm
        is_zero = held is None or everywhere(held, lambda part: part == 0)
        found[timeline.node] = (
            bool(held.any()) if held is not None and is_zero is None else (not is_zero)
        )
    return found


def _share(came: torch.Tensor, grad: torch.Tensor, length: float) -> float | None:
    """Divide ``.grad`` by the incoming gradient; None for no multiple, 0 where unknown."""
    if not (is_plain(came) and is_plain(grad) and math.isfinite(length)):
        return 0
    if came.shape != grad.shape or came.device != grad.device or grad.is_complex():
        return 0
    share = float(torch.linalg.vector_norm(grad, dtype=torch.float64)) / length
    if not math.isfinite(share) or not share:
        return 0
    first, second = came.flatten()[:_COMPARED], grad.flatten()[:_COMPARED]
    close = torch.allclose(second.double(), share * first.double(), _CLOSE, _CLOSE * share * length)
    return share if close else None


def _added(context: CheckContext, nodes: list[int], *, is_known: bool) -> Finding:
    names = [context.captured.graph.nodes[node]["name"] or "an unnamed leaf" for node in nodes]
    message = (
        f".grad of {list_some(names)} is not the gradient of this backward pass alone "
        f"({len(nodes)} of {plural(len(context.leaves), 'leaf', 'leaves')}). It "
        + ("held" if is_known else "was changed after the pass, or held")
        + " a gradient before. If passes should not add up, call optimizer.zero_grad() before "
        "each."
    )
    return make(Finding, "accumulated", "info", nodes, message, {"leaves": len(nodes)})


def _clipped(shares: list[tuple[int, float]]) -> Iterator[Finding]:
    """All gradients were made smaller by one factor since."""
    least, most = min(share for _, share in shares), max(share for _, share in shares)
    if most > _CLIPPED or most - least > _CLOSE * most or _is_scale(1 / most):
        return  # unscaled, if by a power of two
    message = (
        f"Since this backward pass .grad of {plural(len(shares), 'parameter')} was made "
        f"{1 / most:.3g} times smaller, all by one factor, as clip_grad_norm_() does. If "
        "that happens before every step(), max_norm sets the size of the gradients: compare it "
        "with the norm that clip_grad_norm_() returns. After step() it has no effect."
    )
    yield make(Finding, "clipped", "info", [node for node, _ in shares], message, {"factor": most})
