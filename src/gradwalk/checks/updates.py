"""Findings about what happens after backward: the optimizer, clipping, what ``.grad`` adds up."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ..backward.kept_gradients import KeptGradient, norms
from ..backward.recorded_run import RecordedRun
from ..english import list_some, plural
from ..torch_api.nodes import leaf_tensor
from ..torch_api.reading import everywhere, is_plain
from .context import CheckContext
from .finding import Finding

_MOST_NODES = 100
_LARGE = 1e6  # times the norm of the parameters
_CLIPPED = 0.1  # a gradient that is left of so much or less
_CLOSE = 1e-3
_COMPARED = 2**16  # numbers of one gradient


def update_findings(evidence: CheckContext) -> Iterator[Finding]:
    """Find what an optimizer leaves out, and what changed `.grad` beside this pass.

    Args:
        evidence: The evidence.
    """
    if evidence.optimizers:
        yield from _held_otherwise(evidence)
        yield from _of_several(evidence)
        yield from _standing_still(evidence)
    yield from _changed_grads(evidence)
    yield from _cleared(evidence)
    yield from _large(evidence)


def _held_otherwise(evidence: CheckContext) -> Iterator[Finding]:
    """Parameters of the graph that no optimizer holds, and what one holds in their stead."""
    missing = [
        (node, leaf)
        for key, node in evidence.leaves.items()
        if key not in evidence.held
        and isinstance(leaf := leaf_tensor(evidence.captured.nodes[node]), torch.nn.Parameter)
    ]
    models = evidence.called.parameters.values()
    known = {key for parameters in models for key in parameters} | set(evidence.called.known)
    strays = [
        str(tuple(tensor.shape))
        for key, tensor in evidence.held.items()
        if known and key not in known and not evidence.is_used(key)
    ]
    if not missing and not strays:
        return
    # A second network may belong to another optimizer, as in a GAN.
    partly = {
        key
        for parameters in models
        if any(each in evidence.held for each in parameters)
        for key in parameters
    }
    is_grave = (
        bool(strays)
        or not any(key in evidence.held for key in evidence.leaves)
        or any(id(leaf) in partly for _, leaf in missing)
    )
    parts: list[str] = []
    if missing:
        names = [
            evidence.captured.graph.nodes[node]["name"]
            or evidence.called.leaves.get(id(leaf))
            or f"a Parameter of shape {tuple(leaf.shape)}"
            for node, leaf in missing
        ]
        one = len(evidence.optimizers) == 1
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
    yield Finding(
        "optimizer",
        "warning" if is_grave else "info",
        [node for node, _ in missing][:_MOST_NODES],
        f"{' '.join(parts)} "
        + ("Pass " if is_grave else "If no other optimizer holds them, pass ")
        + "them to the optimizer, or make it after the last change of layers.",
        {"missing": len(missing), "held in vain": len(strays)},
    )


def _of_several(evidence: CheckContext) -> Iterator[Finding]:
    """One graph with parameters of several optimizers, all of which backward fills."""
    used: list[list[str]] = []
    for keys in evidence.held_by:
        names = [evidence.name(node) for key, node in evidence.leaves.items() if key in keys]
        if names:
            used.append(names)
    if len(used) < 2:
        return
    each = "; ".join(map(list_some, used))
    yield Finding(
        "optimizer",
        "info",
        [],
        f"{len(used)} optimizers hold parameters of this graph ({each}), and backward fills the "
        ".grad of all. If only one of them steps now, call zero_grad() on the others before their "
        "own backward().",
        {"optimizers": len(used)},
    )


def _standing_still(evidence: CheckContext) -> Iterator[Finding]:
    """Parameters of the graph whose learning rate is 0."""
    names: list[str] = []
    nodes: list[int] = []
    for optimizer in evidence.optimizers:
        for group in optimizer.param_groups:
            rate = group.get("lr")
            if rate is None or float(rate) != 0:
                continue
            keys = {id(each) for each in group["params"]}
            here = [node for key, node in evidence.leaves.items() if key in keys]
            nodes += here
            names += [evidence.name(node) for node in here]
    if names:
        yield Finding(
            "optimizer",
            "info",
            nodes[:_MOST_NODES],
            f"The learning rate of {list_some(names)} is 0 now, {plural(len(names), 'parameter')} "
            f"of this graph, so a step of most optimizers leaves "
            f"{'it as it is' if len(names) == 1 else 'them as they are'}. A warm-up may begin so.",
            {"parameters": len(names)},
        )


def _changed_grads(evidence: CheckContext) -> Iterator[Finding]:
    """Where ``.grad`` is not what the pass gave alone."""
    run = _settled(evidence)
    if run is None:
        return
    added: list[int] = []
    shares: list[tuple[int, float]] = []
    before = _before(evidence)
    came = _came(evidence, run)
    for (node, kept), length in zip(came.items(), norms(list(came.values())), strict=True):
        leaf = leaf_tensor(evidence.captured.nodes[node])
        grad = leaf.grad if leaf is not None else None
        if kept is None or kept.tensor is None or kept.changed or grad is None or not length:
            continue
        if before.get(node):
            added.append(node)
            continue
        # A reduced gradient is a sum over ranks, and this process knows only its own part.
        share = 0 if node in evidence.reduced else _share(kept.tensor, grad, length)
        if share is None and node not in before:
            added.append(node)
        elif share:
            shares.append((node, share))
    if added:
        yield _added(evidence, added, is_known=bool(before))
    elif shares:
        yield from _clipped(shares)


def _settled(evidence: CheckContext) -> RecordedRun | None:
    """The pass, if it has ended, and ``.grad`` holds all of it."""
    recording, run = evidence.recording, evidence.run
    if recording is None or run is None or run.state != "done":
        return None
    return None if recording.owned and recording.cursor < len(run.steps) else run


def _came(evidence: CheckContext, run: RecordedRun) -> dict[int, KeptGradient | None]:
    """Map each leaf that ran to its incoming gradient."""
    return {
        node: run.steps[node].grad_outputs[0]
        for node in evidence.leaves.values()
        if node in run.steps and run.steps[node].grad_outputs
    }


def _is_empty(grad: torch.Tensor | None) -> bool:
    """Whether a ``.grad`` holds nothing, or nothing but zeros."""
    return grad is None or (
        grad.layout is torch.strided and everywhere(grad, lambda part: part == 0) is True
    )


def _cleared(evidence: CheckContext) -> Iterator[Finding]:
    """Where ``.grad`` holds nothing of what the pass gave."""
    run = _settled(evidence)
    if run is None:
        return
    nodes = []
    came = _came(evidence, run)
    for node, length in zip(came, norms(list(came.values())), strict=True):
        leaf = leaf_tensor(evidence.captured.nodes[node])
        if leaf is not None and length and node not in evidence.reduced and _is_empty(leaf.grad):
            nodes.append(node)
    if not nodes:
        return
    names = [evidence.name(node) for node in nodes]
    yield Finding(
        "cleared",
        "info",
        nodes[:_MOST_NODES],
        f".grad of {list_some(names)} has been cleared since this backward pass, as by "
        "zero_grad(). If the optimizer has not stepped, its step() has no gradient: call "
        "zero_grad() before backward(), or after step().",
        {"leaves": len(nodes)},
    )


def _large(evidence: CheckContext) -> Iterator[Finding]:
    """Gradients that are large beside what they are to change."""
    run = evidence.run
    if run is None:
        return
    came = {
        node: kept
        for node, kept in _came(evidence, run).items()
        if isinstance(leaf := leaf_tensor(evidence.captured.nodes[node]), torch.nn.Parameter)
        and is_plain(leaf)
    }
    nodes = list(came)
    own = [
        leaf for node in nodes if (leaf := leaf_tensor(evidence.captured.nodes[node])) is not None
    ]
    gradient = math.hypot(*(length for length in norms(list(came.values())) if length is not None))
    size = math.hypot(*(float(torch.linalg.vector_norm(leaf)) for leaf in own if leaf is not None))
    if not size or not math.isfinite(gradient) or not gradient > _LARGE * size:
        return
    ratio = gradient / size
    yield Finding(
        "large",
        "info",
        nodes[:_MOST_NODES],
        f"The gradients of the {plural(len(nodes), 'Parameter')} have a norm of {gradient:.3g} "
        f"altogether, {ratio:.3g} times the norm of the parameters ({size:.3g}). A step of "
        f"plain SGD with a learning rate above {_rounded_up(1 / ratio)} overwrites them: check the "
        "scale of the loss and of the data.",
        {"norm": gradient, "ratio": ratio},
    )


def _rounded_up(number: float) -> str:
    """A number of one digit that is not smaller."""
    power = 10.0 ** math.floor(math.log10(number))
    return f"{math.ceil(number / power) * power:.1g}"


def _before(evidence: CheckContext) -> dict[int, bool]:
    """Leaf -> whether its ``.grad`` held something before the pass, of one that gradwalk ran."""
    run = evidence.run
    found: dict[int, bool] = {}
    for timeline in run.grads.timelines if run is not None and run.grads is not None else ():
        first = timeline.moments[0]
        held = first.values if first.values is not None else first.norm
        found[timeline.node] = held is not None and _has_some(held)
    return found


def _has_some(held: torch.Tensor) -> bool:
    """Whether a number is not zero."""
    is_zero = everywhere(held, lambda part: part == 0)
    return bool(held.any()) if is_zero is None else not is_zero


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


def _added(evidence: CheckContext, nodes: list[int], *, is_known: bool) -> Finding:
    names = [evidence.captured.graph.nodes[node]["name"] or "an unnamed leaf" for node in nodes]
    return Finding(
        "accumulated",
        "info",
        nodes[:_MOST_NODES],
        f".grad of {list_some(names)} is not the gradient of this backward pass alone "
        f"({len(nodes)} of {plural(len(evidence.leaves), 'leaf', 'leaves')}). It "
        + ("held" if is_known else "was changed after the pass, or held")
        + " a gradient before. If passes should not add up, call optimizer.zero_grad() before "
        "each.",
        {"leaves": len(nodes)},
    )


def _clipped(shares: list[tuple[int, float]]) -> Iterator[Finding]:
    """All gradients were made smaller by one factor since."""
    least = min(share for _, share in shares)
    most = max(share for _, share in shares)
    if most > _CLIPPED or most - least > _CLOSE * most:
        return
    yield Finding(
        "clipped",
        "info",
        [node for node, _ in shares][:_MOST_NODES],
        f"Since this backward pass .grad of {plural(len(shares), 'parameter')} was made "
        f"{1 / most:.3g} times smaller, all by one factor, as clip_grad_norm_() does. If that "
        "happens at every step, max_norm sets the size of the steps: compare it with the norm "
        "that clip_grad_norm_() returns.",
        {"factor": most},
    )
