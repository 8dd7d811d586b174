"""Findings about steps of optimizers that did something else than the gradient says."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

import torch

from ..english import list_some, plural
from ..explain.constants_and_cuts import at_line
from ..result import make, replaced
from ..torch_api.modules import BATCH_NORMS
from ..tracing.records import modules_ran
from ..tracing.steps import Clip, Moved, Step, noted_steps
from .context import CheckContext
from .finding import Finding
from .updates import held_otherwise

_NARROW = (torch.bfloat16, torch.float16)
_MOST = 0.99  # of the sampled numbers


def step_findings(context: CheckContext) -> Iterator[Finding]:
    """Find parameters that a step left although they have a gradient, and the other way round."""
    for optimizer, step in noted_steps():
        moved = {
            context.leaves[key]: each
            for key, each in step.moved.items()
            if key in context.leaves and each.parameter() is context.leaf(context.leaves[key])
        }
        yield from _of_step(context, type(optimizer).__name__, step, moved)
        if moved:
            yield from _of_clips(step)
            yield from _of_scale(type(optimizer).__name__, step)
    yield from _moving_statistics(context)
    yield from _held_by_none(context)


def _of_scale(name: str, step: Step) -> Iterator[Finding]:
    """Gradients of a scaled loss that a step took as they are, or that were clipped so."""
    before = step.before
    clip = next((each for each in before.clips if each.is_of_scaled), None)
    if before.is_scaled and not before.is_unscaled:
        message = (
            f"{name}.step(){at_line(step.where)} took gradients of a loss that a GradScaler "
            "scaled, and scaler.unscale_() was not called. Call scaler.step(optimizer) instead, "
            "unless the program divides them itself."
        )
    elif clip is not None:
        message = (
            f"The clipping{at_line(clip.where, text=True)} saw the gradients of a loss that a "
            "GradScaler scaled. Call scaler.unscale_(optimizer) before it."
        )
    else:
        return
    yield make(Finding, "scaled", "warning", [], message)


def _of_clips(step: Step) -> Iterator[Finding]:
    """Calls that clip nothing, or each of several passes."""
    clips, passes = step.before.clips, step.before.passes
    if not clips or not passes:
        return
    at = at_line(clips[-1].where, text=True)
    if clips[-1].after == 0:
        message = (
            f"The clipping{at} has no effect on the step{at_line(step.where)}: no backward pass is "
            "between the step before and the clipping. Clip after backward() and before step()."
        )
    elif not any(each.grads for each in clips):
        message = (
            f"The clipping{at} saw no gradient: none of its parameters has one. Pass the "
            "parameters of the model, as a list."
        )
    elif _clips_each_pass(clips):
        message = (
            f"The clipping{at} runs after each of {passes} passes of one step, and so clips "
            "sums of gradients that were clipped before. Clip once, before step()."
        )
    else:
        return
    yield make(Finding, "clipped", "info", [], message, {"clips": len(clips)})


def _clips_each_pass(clips: list[Clip]) -> bool:
    """Whether the same gradients were clipped after one pass, and again after a later one."""
    seen: dict[int, int] = {}
    for clip in clips:
        for reference in clip.grads:
            grad = reference()
            if grad is not None and seen.setdefault(id(grad), clip.after) < clip.after:
                return True
    return False


def _held_by_none(context: CheckContext) -> Iterator[Finding]:
    """Parameters that none of the optimizers holds which stepped; without optimizer=, a note."""
    held = ((each, step.moved) for each, step in noted_steps())
    stepped = [each for each, moved in held if not context.leaves.keys().isdisjoint(moved)]
    if stepped and not context.optimizers:
        with_them = dataclasses.replace(context, optimizers=stepped)
        for finding in held_otherwise(with_them):
            if finding.severity == "warning":
                yield replaced(finding, severity="info")


def _of_step(
    context: CheckContext, name: str, step: Step, moved: dict[int, Moved]
) -> Iterator[Finding]:
    groups: dict[str, list[int]] = defaultdict(list)
    for node, each in moved.items():
        what = _what_happened(each)
        if what:
            groups[what].append(node)
    if any(_has_bad_gradient(each) for each in moved.values()):
        groups.pop("left", None)  # a GradScaler skips such a step
    for what, nodes in groups.items():
        names = list_some([context.name(node) for node in nodes])
        message, is_grave = _said(what, names, moved[nodes[0]], name)
        yield make(
            Finding,
            "step",
            "warning" if is_grave else "info",
            nodes,
            f"{name}.step(){at_line(step.where)} {message}",
            {"parameters": len(nodes)},
        )


def _has_bad_gradient(moved: Moved) -> bool:
    return moved.grad is not None and not bool(moved.grad.isfinite().all())


def _what_happened(moved: Moved) -> str:
    """The kind of a step that did not follow the gradient; empty for one that did."""
    after, before, grad = moved.after, moved.before, moved.grad
    if after is None or after.shape != before.shape:
        return ""
    if bool(before.isfinite().all()) and not bool(after.isfinite().all()):
        return "" if _has_bad_gradient(moved) else "infinite"
    changed = before != after
    if grad is None or not bool(grad.any()):
        return "changed" if bool(changed.any()) and grad is not None else ""
    led = grad != 0
    share = 1 - float((changed & led).sum()) / float(led.sum())
    if share < _MOST:
        return ""
    if moved.rate is not None and not float(moved.rate):
        return "still"
    return "rounded" if before.dtype in _NARROW else "left"


def _said(what: str, names: str, moved: Moved, optimizer: str) -> tuple[str, bool]:
    """Say how a step treated some parameters, and whether that is a warning."""
    dtype = moved.before.dtype
    if what == "rounded":
        return (
            f"changed nothing of {names}, although their gradients are not zero: {dtype} rounds "
            "the step away. Keep the parameters in float32, and use autocast for the rest.",
            True,
        )
    if what == "infinite":
        eps = ""
        if dtype is torch.float16 and "Adam" in optimizer:
            eps = " The eps of 1e-8 is 0 in float16, so it divides by zero."
        return (
            f"made {names} infinite or NaN, of a finite gradient.{eps} Take a smaller learning "
            "rate, or keep the parameters in float32.",
            True,
        )
    if what == "still":
        return f"changed nothing of {names}: the learning rate was 0 then.", False
    if what == "left":
        return (
            f"changed nothing of {names}, although their gradients are not zero. The step may be "
            f"too small for {dtype}: compare lr times the gradient with the numbers.",
            False,
        )
    return (
        f"changed {names}, although the gradient is zero: weight decay or momentum does that. To "
        "keep them, take them out of the optimizer, or set their .grad to None.",
        False,
    )


def _moving_statistics(context: CheckContext) -> Iterator[Finding]:
    """Frozen batch norms whose running statistics move."""
    found = []
    for module in modules_ran():
        place = context.called.place_of(module)
        if place is None or not isinstance(module, BATCH_NORMS):
            continue
        own = list(module.parameters())
        is_frozen = bool(own) and not any(each.requires_grad for each in own)
        if is_frozen and module.training and module.running_mean is not None:
            found.append(place[1])
    if found:
        one = len(found) == 1
        message = (
            f"{list_some(found)} {'is' if one else 'are'} frozen, but in train mode: the running "
            f"statistics of {plural(len(found), 'batch norm')} move with each batch. Call eval() "
            "on them after model.train()."
        )
        yield make(Finding, "frozen", "info", [], message, {"batch norms": len(found)})
