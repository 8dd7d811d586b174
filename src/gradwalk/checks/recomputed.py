"""Findings about checkpointed parts whose recomputation is not the forward pass."""

from __future__ import annotations

from collections.abc import Iterator

from ..english import list_some, plural
from ..result import make
from ..torch_api.checkpoints import keeps_random_state
from ..torch_api.modules import BATCH_NORMS
from .context import CheckContext
from .finding import Finding

_RANDOM = frozenset({"NativeDropoutBackward0", "BernoulliBackward0", "RreluWithNoiseBackward0"})
_NORMS = frozenset({"NativeBatchNormBackward0", "CudnnBatchNormBackward0"})


def recomputed_findings(context: CheckContext) -> Iterator[Finding]:
    """Find parts that draw other random numbers, or update statistics, when they run again."""
    for region in context.captured.regions:
        frame = None if region.frame is None else region.frame()
        about = context.captured.nodes[region.nodes[0]] if frame is None else frame
        if keeps_random_state(about) is False:
            yield from _drawn_anew(context, list(region.nodes), region.called)
    yield from _updated_twice(context)


def _drawn_anew(context: CheckContext, nodes: list[int], called: str | None) -> Iterator[Finding]:
    drawn = [node for node in nodes if _is_random(context, node)]
    part = called or "The checkpointed part"
    if drawn:
        message = (
            f"{part} is recomputed with preserve_rng_state=False, and {context.place(drawn[0])} "
            "draws random numbers: backward uses others than the forward pass did. Leave out "
            "preserve_rng_state=False."
        )
        yield make(Finding, "recomputed", "warning", drawn, message, {"operations": len(drawn)})


def _is_random(context: CheckContext, node: int) -> bool:
    if context.captured.graph.nodes[node]["op"] in _RANDOM:
        return True
    seen = context.captured.annotations.get(node)
    if seen is None:
        return False
    origins = [each.origin for each in seen.constants]
    is_drawn = any(each is not None and each.is_random for each in origins)
    return is_drawn or "dropout" in (seen.forward or "")


def _updated_twice(context: CheckContext) -> Iterator[Finding]:
    """Batch norms in train mode, whose running statistics take each batch twice."""
    inside = {node for region in context.captured.regions for node in region.nodes}
    found = []
    for node in sorted(inside):
        if context.captured.graph.nodes[node]["op"] not in _NORMS:
            continue
        path = context.module(node)
        for reference, _, place in context.called.places.values():
            module = reference()
            is_it = isinstance(module, BATCH_NORMS) and place == path
            if is_it and module is not None and module.training and module.track_running_stats:
                found.append((node, path))
    if found:
        message = (
            f"{list_some([path for _, path in found])}, {plural(len(found), 'batch norm')} in a "
            "checkpointed part, updates its running statistics in the forward pass and again when "
            "it is recomputed. Gradients are right; for the statistics, use "
            "momentum = 1 - sqrt(1 - momentum), or leave batch norms outside."
        )
        nodes = [node for node, _ in found]
        yield make(Finding, "recomputed", "info", nodes, message, {"batch norms": len(found)})
