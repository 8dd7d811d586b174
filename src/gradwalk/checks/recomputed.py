"""Findings about checkpointed parts whose recomputation is not the forward pass."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..english import list_some, plural
from ..explain.constants_and_cuts import at_line
from ..result import make
from ..torch_api.checkpoints import BothRuns, keeps_random_state
from ..torch_api.modules import BATCH_NORMS
from ..tracing.both_runs import runs_of
from ..tracing.checkpoint_regions import Region
from .context import CheckContext
from .finding import Finding

_CLOSE = 1e-3  # sums of many threads differ by their order

_RANDOM = frozenset({"NativeDropoutBackward0", "BernoulliBackward0", "RreluWithNoiseBackward0"})
_NORMS = frozenset({"NativeBatchNormBackward0", "CudnnBatchNormBackward0"})


def recomputed_findings(context: CheckContext) -> Iterator[Finding]:
    """Find parts that draw other random numbers, or update statistics, when they run again."""
    for region in context.captured.regions:
        runs = runs_of(region.frame)
        frame = None if region.frame is None else region.frame()
        about = context.captured.nodes[region.nodes[0]] if frame is None else frame
        keeps = keeps_random_state(about) if runs is None else runs.keeps_random_state
        drawn = [] if keeps is not False else [*_drawn_anew(context, region)]
        yield from drawn or ([] if runs is None else _differing(region, runs))
    yield from _updated_twice(context)


def _differing(region: Region, runs: BothRuns) -> Iterator[Finding]:
    """The first tensor that a part saved otherwise when it ran again."""
    for first, again in runs.pairs:
        tensor = first.tensor()
        if tensor is not None and tensor is again.tensor():
            continue  # a tensor of the program, such as the statistics of a batch norm
        shapes = tuple(first.get("shape", ())), tuple(again.get("shape", ()))
        if shapes[0] == shapes[1] and not _are_other(first.numbers, again.numbers):
            continue
        what = (
            "computed other numbers"
            if shapes[0] == shapes[1]
            else f"computed a tensor of shape {shapes[1]} in place of {shapes[0]}"
        )
        message = (
            f"{region.called or 'The checkpointed part'} {what}"
            f"{at_line(runs.line_of(first), text=True)} when it ran again for backward. It "
            "must depend on its arguments alone: draw random numbers of Python or NumPy, and "
            "change caches and other state, outside of it."
        )
        nodes, numbers = list(region.nodes), {"saved tensor": float(first.place)}
        yield make(Finding, "recomputed", "warning", nodes, message, numbers)
        return


def _are_other(first: torch.Tensor | None, again: torch.Tensor | None) -> bool:
    if first is None or again is None or first.shape != again.shape:
        return False
    one, other = first.double(), again.double()
    return not torch.allclose(one, other, _CLOSE, _CLOSE * float(one.abs().max()), equal_nan=True)


def _drawn_anew(context: CheckContext, region: Region) -> Iterator[Finding]:
    drawn = [node for node in region.nodes if _is_random(context, node)]
    part = region.called or "The checkpointed part"
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
