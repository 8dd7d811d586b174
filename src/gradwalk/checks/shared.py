"""Findings about two names for one memory: modules, parameters and tensors that share it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import nn

from ..english import has_word, list_some, plural
from ..result import make
from ..schema.findings import Severity
from ..torch_api.modules import parameters_of, submodules
from ..torch_api.reading import overlap, storage_id
from .context import CheckContext
from .finding import Finding

_OTHER = re.compile(
    "ema|average|averaged|avg|swa|shadow|target|teacher|reference|ref|old|frozen|best|copy|backup|"
    "initial|init|previous|prev|before|saved|snapshot|anchor|baseline|start"
)
"""Words in the names of what should stay as it is while a model learns."""


def shared_findings(context: CheckContext) -> Iterator[Finding]:
    """Find modules, tensors and parameters that share memory although they have two names."""
    yield from _same_modules(context)
    yield from _kept_values(context)
    yield from _overlapping(context)
    yield from _held_twice(context)


def _same_modules(context: CheckContext) -> Iterator[Finding]:
    """A reference, average or target that is the trained model itself."""
    seen: set[tuple[int, ...]] = set()
    for one, other, module in _pairs(context):
        used = [p for p in parameters_of(module) if p.requires_grad and context.is_used(id(p))]
        key = tuple(sorted(map(id, used)))
        if not used or key in seen:
            continue
        seen.add(key)
        nodes = [context.leaves[id(p)] for p in used if id(p) in context.leaves]
        message = (
            f"{other} and {one} have the same {plural(len(used), 'parameter')} in memory, so each "
            f"step changes both. If {other} should keep its own values, make it with "
            "copy.deepcopy()."
        )
        numbers: dict[str, float] = {"parameters": len(used)}
        yield make(Finding, "shared-memory", "warning", nodes, message, numbers)


def _pairs(context: CheckContext) -> Iterator[tuple[str, str, nn.Module]]:
    """Yield the two names of modules with the same parameters, of which one names another role."""
    by_parameters: dict[tuple[int, ...], list[tuple[str, nn.Module]]] = defaultdict(list)
    for reference, variable, path in context.called.places.values():
        module = reference()
        if module is None:
            continue
        key = tuple(map(id, parameters_of(module)))
        names = [path or variable, *context.called.aliases.get(id(module), ())]
        if key:
            by_parameters[key] += [(name, module) for name in names]
        for name, child in submodules(module).items():
            inner = () if child is None else tuple(map(id, parameters_of(child)))
            if child is not None and inner and has_word(name, _OTHER):
                by_parameters[inner].append((f"{path}.{name}".lstrip("."), child))
    for named in by_parameters.values():
        names = list(dict.fromkeys(name for name, _ in named))
        others = [name for name in names if has_word(name.rpartition(".")[2], _OTHER)]
        own = [
            name
            for name in names
            if name not in others
            and not any(
                name.startswith(f"{each}.") or each.startswith(f"{name}.") for each in others
            )
        ]
        if others and own:
            yield own[0], others[0], named[0][1]


def _kept_values(context: CheckContext) -> Iterator[Finding]:
    """Tensors that a program keeps as they were, and that are views of what learns."""
    learned = {
        key: tensor
        for parameters in context.models.values()
        for key in parameters
        if (tensor := context.tensor(key)) is not None and tensor.requires_grad
    }
    by_memory: dict[int, torch.Tensor] = {}
    for tensor in learned.values():
        memory = storage_id(tensor)
        if memory is not None:
            by_memory[memory] = tensor
    own = {
        name for parameters in context.called.parameters.values() for name in parameters.values()
    }
    kept: dict[str, list[str]] = defaultdict(list)
    for key, (name, reference) in context.called.known.items():
        names = [*([] if key in learned else [name]), *context.called.aliases.get(key, ())]
        tensor = reference()
        memory = None if tensor is None else storage_id(tensor)
        source = None if memory is None else by_memory.get(memory)
        if source is None or tensor is None:
            continue
        for each in names:
            variable = re.split(r"[\[.]", each)[0]
            is_kept = has_word(variable, _OTHER) or has_word(each.split("[")[0], _OTHER)
            if each not in own and is_kept and (tensor is source or overlap(tensor, source)):
                kept[each.split("[")[0]].append(context.called.known[id(source)][0])
    for variable, names in kept.items():
        copy = f"copy.deepcopy({variable})" if len(names) > 1 else "clone()"
        message = (
            f"{variable} is in the memory of {list_some(list(dict.fromkeys(names)))}: each step "
            f"changes it, too. To keep the values as they are now, use {copy}; state_dict() and "
            "detach() copy nothing."
        )
        numbers: dict[str, float] = {"tensors": len(names)}
        severity: Severity = "warning" if len(names) > 1 else "info"
        yield make(Finding, "shared-memory", severity, [], message, numbers)


def _overlapping(context: CheckContext) -> Iterator[Finding]:
    """Two parameters of different shapes in one memory, as Parameter(table.weight[:5]) makes."""
    by_memory: dict[int, list[int]] = defaultdict(list)
    for node in context.leaves.values():
        leaf = context.leaf(node)
        memory = None if leaf is None else storage_id(leaf)
        if memory is not None:
            by_memory[memory].append(node)
    for nodes in by_memory.values():
        for at, first in enumerate(nodes[:16]):
            for second in nodes[at + 1 : 16]:
                one, other = context.leaf(first), context.leaf(second)
                if one is None or other is None or one.shape == other.shape:
                    continue
                if not overlap(one, other):
                    continue
                names = context.name(first), context.name(second)
                message = (
                    f"{names[0]} and {names[1]} overlap in memory, so a step of one changes the "
                    "other. Parameter() of a slice copies nothing: use nn.Parameter(part.clone())."
                )
                yield make(Finding, "shared-memory", "warning", [first, second], message)


def _held_twice(context: CheckContext) -> Iterator[Finding]:
    """Parameters that two optimizers step."""
    held = context.held_by
    twice = [node for key, node in context.leaves.items() if sum(key in keys for keys in held) > 1]
    if twice:
        names = [context.name(node) for node in twice]
        message = (
            f"Several optimizers hold {list_some(names)}, so each of their steps changes "
            f"{'it' if len(names) == 1 else 'them'}. Give a parameter to one optimizer alone."
        )
        numbers: dict[str, float] = {"parameters": len(names)}
        yield make(Finding, "shared-memory", "info", twice, message, numbers)
