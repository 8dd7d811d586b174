"""Findings about a graph that is right, and numbers that are not what the program means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import nn

from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_pass import contributions
from ..english import list_some, plural
from ..graph.adjacency import walk
from ..result import make
from ..schema.findings import Severity
from ..torch_api.modules import parameters_of, submodules
from ..torch_api.reading import is_plain
from ..torch_api.saved_tensors import plain_value, read_saved, signed
from .context import CheckContext
from .finding import Finding

_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_MOST_INDICES = 2**22
_WRITES = {
    "IndexPutBackward0": "values",
    "ScatterBackward0": "src",
    "IndexCopyBackward0": "source",
}
"""The operations that write to indices -> the argument that they write."""
_READS = frozenset({"IndexBackward0", "GatherBackward0", "IndexSelectBackward0"})
_STARTS_BACKWARD = frozenset({"backward", "grad", "manual_backward"})


def number_findings(context: CheckContext) -> Iterator[Finding]:
    """Find shared modules, a `backward` never called, changed gradients, lost writes, padding."""
    yield from _shared_modules(context)
    yield from _unused_backward(context)
    yield from _changed_on_the_way(context)
    yield from _lost_writes(context)
    yield from _last_of_padded(context)


def _shared_modules(context: CheckContext) -> Iterator[Finding]:
    """Modules with one module several times, as of `[block] * 4`, or with shallow copies."""
    for module, path in _modules(context):
        alike: dict[object, list[tuple[str, nn.Module]]] = defaultdict(list)
        for name, child in submodules(module).items():
            if child is not None:
                is_listed = isinstance(module, _CONTAINERS)
                held = tuple(map(id, parameters_of(child))) if is_listed else ()
                key = (type(child), held) if held else id(child)
                alike[key].append((f"{path}.{name}".lstrip("."), child))
        for same in alike.values():
            names, child = [name for name, _ in same], same[0][1]
            if len(names) == 1:
                continue
            used = [p for p in child.parameters() if context.is_used(id(p))]
            if used:
                is_one = all(each is child for _, each in same)
                are = "are one module, so they share"
                if not is_one:
                    are = "hold the same parameters, as after copy.copy(): they share"
                message = (
                    f"{list_some(names)} {are} "
                    f"{plural(len(used), 'parameter')}, and the gradient is the sum over all "
                    "uses. If each should learn its own, make a new module for each, or a "
                    "copy.deepcopy()."
                )
                nodes = [context.leaves[id(p)] for p in used if id(p) in context.leaves]
                yield make(Finding, "shared-module", "info", nodes, message, {"uses": len(names)})


def _unused_backward(context: CheckContext) -> Iterator[Finding]:
    """Modules with a `backward` that computes a gradient: torch never calls it."""
    found: dict[type, str] = {}
    for module, path in _modules(context, without_parameters=True):
        if _defines_derivative(type(module)):
            found.setdefault(type(module), path)
    for kind, path in found.items():
        message = (
            f"{kind.__name__} ({path or 'the module'}) defines backward(), but torch never calls "
            "backward() of an nn.Module: it differentiates forward() itself. To give your own "
            "derivative, write a torch.autograd.Function."
        )
        yield make(Finding, "unused-backward", "info", [], message)


def _defines_derivative(kind: type) -> bool:
    """Whether a class has a `backward` that is not one which starts a backward pass itself."""
    code = getattr(getattr(kind, "backward", None), "__code__", None)
    return code is not None and not _STARTS_BACKWARD.intersection(code.co_names)


def _modules(
    context: CheckContext, *, without_parameters: bool = False
) -> Iterator[tuple[nn.Module, str]]:
    """Yield the modules known to take part in the graph, with their paths."""
    for reference, variable, path in context.called.places.values():
        module = reference()
        is_free = without_parameters and not context.called.parameters.get(variable)
        if module is not None and (is_free or variable in context.models):
            yield module, path


def _changed_on_the_way(context: CheckContext) -> Iterator[Finding]:
    """Gradients that one consumer changed in place while another one received the same tensor."""
    run = context.run
    if run is None:
        return
    for step in run.steps.values():
        edges = context.captured.successors[step.node]
        targets = [
            (child, edge["output_nr"])
            for child, each in edges.items()
            for edge in each.values()
            if (kept := step.grad_inputs[edge["arg_nr"]]) is not None and kept.was_changed
        ]
        if len(targets) < 2:
            continue
        for node, output_nr in targets:
            changed = _received(context, node, output_nr)
            if changed is None or changed.version == 0 or changed.tensor is None:
                continue
            wrong = [
                each
                for each, nr in targets
                if each != node and _has_received(context, each, nr, step.node, changed.tensor)
            ]
            if wrong:
                message = (
                    f"The gradient of {context.place(node)} was changed in place, by a hook or "
                    f"by its backward. {context.words(step.node)} passes the same tensor to "
                    f"{list_some([context.words(each) for each in wrong])}, so that gradient is "
                    "changed, too. Return a new tensor, as in g * 2 instead of g.mul_(2)."
                )
                yield make(
                    Finding, "changed-gradient", "warning", [node, *wrong, step.node], message
                )
                return


def _received(context: CheckContext, node: int, output_nr: int) -> KeptGradient | None:
    step = None if context.run is None else context.run.steps.get(node)
    came = [] if step is None else step.grad_outputs
    return came[output_nr] if output_nr < len(came) else None


def _has_received(
    context: CheckContext, node: int, output_nr: int, source: int, changed: torch.Tensor
) -> bool:
    """Whether the changed gradient is a part of what another node received."""
    kept = _received(context, node, output_nr)
    came = None if kept is None else kept.tensor
    if came is None or not is_plain(came) or context.run is None:
        return False
    if came is changed:
        return True
    total = changed
    for each in contributions(context.captured.graph, context.run, node):
        if each.output_nr != output_nr or each.consumer == source:
            continue
        if each.grad is None:
            return False
        total = total + each.grad
    return total is not changed and total.shape == came.shape and torch.allclose(total, came)


def _lost_writes(context: CheckContext) -> Iterator[Finding]:
    """Writes to repeated indices, of which only one lasts: `y[index] += x`."""
    graph, nodes = context.captured.graph, context.captured.nodes
    for node, op in context.nodes_of(_WRITES):
        edges = graph.out_edges(node, data=True)
        values = [child for _, child, edge in edges if edge["argument"] == _WRITES[op]]
        is_lasting = not values or plain_value(nodes[node], "accumulate")
        lost, count = (0, 0) if is_lasting else _overwritten(context, node)
        if not lost:
            continue
        is_added = _adds_to_itself(context, node, values[0])
        remedy = "backward gives all of them a gradient, as if each had been written."
        if is_added:
            remedy = "To add all of them, use index_put(..., accumulate=True) or index_add()."
        message = (
            f"{context.place(node)} writes to repeated indices: {lost} of {count} "
            f"values are overwritten by another one. {remedy}"
        )
        severity: Severity = "warning" if is_added else "info"
        yield make(Finding, "repeated-index", severity, [node], message, {"overwritten": lost})


def _adds_to_itself(context: CheckContext, node: int, values: int) -> bool:
    """Whether a write is one of `y[index] += x`: it writes a sum with what it reads."""
    graph = context.captured.graph
    if graph.nodes[values]["op"] not in ("AddBackward0", "SubBackward0"):
        return False
    if any(graph.nodes[child]["op"] in _READS for child in graph.succ[values]):
        return True
    free = [
        {place["argument"] for place in graph.nodes[i]["no_grad_inputs"]} for i in (node, values)
    ]
    return "self" in free[0] and "self" in free[1]


def _overwritten(context: CheckContext, node: int) -> tuple[int, int]:
    """Count the values that a write overwrites by another one, and all its values."""
    if context.captured.graph.nodes[node]["op"] == "IndexPutBackward0":
        columns = _indices(context, node)
        if columns is None:
            return 0, 0
        return columns.shape[1] - torch.unique(columns, dim=1).shape[1], columns.shape[1]
    index = context.saved(node).get("index")
    dim = plain_value(context.captured.nodes[node], "dim")
    if not isinstance(index, torch.Tensor) or not is_plain(index) or not index.dim():
        return 0, 0
    if index.numel() > _MOST_INDICES:
        return 0, 0
    along = signed(dim) if index.dim() > 1 else 0
    return int((index.sort(along).values.diff(dim=along) == 0).sum()), index.numel()


def _indices(context: CheckContext, node: int) -> torch.Tensor | None:
    """The indices of an `index_put`, one column for each value; None where not known."""
    every = read_saved(context.captured.nodes[node])
    found = [saved.value for saved in every if saved.name.startswith("indices")]
    tensors = [each for each in found if isinstance(each, torch.Tensor) and is_plain(each)]
    if not tensors or len(tensors) < len(found):
        return None
    if any(each.dtype in (torch.bool, torch.uint8) for each in tensors):
        return None
    wide: list[torch.Tensor] = list(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]
    is_few = 0 < wide[0].numel() <= _MOST_INDICES
    return torch.stack([each.flatten() for each in wide]) if is_few else None


def _last_of_padded(context: CheckContext) -> Iterator[Finding]:
    """The last step of sequences of several lengths, which is padding in the shorter ones."""
    captured = context.captured
    ops = captured.graph.nodes(data="op")
    for node, _ in context.nodes_of(("SelectBackward0",)):
        if plain_value(captured.nodes[node], "index") not in (-1, 2**64 - 1):
            continue
        (source,) = captured.graph.succ[node]
        is_sorted_back = ops[source] == "IndexSelectBackward0"  # enforce_sorted=False
        if is_sorted_back:
            (source,) = captured.graph.succ[source]
        seen = captured.annotations.get(source)
        by = "" if seen is None else seen.forward or ""
        if not (by.endswith("pad_packed_sequence") or (seen is None and _packs(context, source))):
            continue
        is_turned = ops[source] == "TransposeBackward0"
        writes = next(iter(captured.graph.succ[source])) if is_turned else source
        is_step = plain_value(captured.nodes[node], "dim") == int(is_turned)
        # One write for each number of sequences that are still running.
        lengths = any(ops[each] == "CopySlices" for each in captured.graph.succ[writes])
        is_only = len(captured.graph.pred[source]) == 1
        if is_step and is_only and lengths and ops[writes] == "CopySlices":
            message = (
                f"{context.place(node)} takes the last step of padded sequences of several "
                "lengths, which is padding in the shorter ones: they get no gradient through it. "
                "Take the step at lengths - 1 of each, or the hidden state that the module "
                "returns."
            )
            yield make(Finding, "padding", "warning", [node], message)


def _packs(context: CheckContext, node: int) -> bool:
    """Whether a node leads to a packed sequence by the writes that pad it again."""
    graph = context.captured.graph
    behind = walk([node], graph.succ.__getitem__)
    return any(graph.nodes[each]["op"] == "PackPaddedSequenceBackward0" for each in behind)
