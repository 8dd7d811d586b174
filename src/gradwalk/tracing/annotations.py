"""Look up what `watch` recorded about an operation, a constant or a cut."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import Node
from torch.overrides import get_testing_overrides, resolve_name

from ..graph.adjacency import walk
from ..graph.capture import Capture
from ..schema.graph import NoGradInput
from ..torch_api.nodes import (
    NextFunctions,
    custom_function,
    function_arguments,
    sequence_nr,
)
from ..torch_api.saved_tensors import read_saved
from . import weak_id_dict
from .call_log import CallLog
from .cuts import Constant, Cut, Origin, UnrecordedSource
from .double_backward import differentiates
from .records import CallFacts, LeafSnapshot, Record, living_records, records_in
from .source_line import SourceLine


class Annotation(NamedTuple):
    """What `watch` recorded about the call that made an autograd node."""

    source: SourceLine | None  # the user's line
    # The path of the running module relative to the outermost one, "encoder.layers.0.linear1";
    # empty in the outermost module itself, None outside of any.
    module: str | None
    module_root: str | None  # the class name of the outermost running module
    # (path, class name) of the running modules, from the outermost in.
    modules: tuple[tuple[str, str], ...]
    # The function: "torch.nn.functional.linear", "mul" for a method or an operator, the class name
    # of an ``autograd.Function``.
    forward: str | None
    inplace: bool  # whether it changed one of its operands
    # The operands that need no grad. All nodes of one call start with the same.
    constants: tuple[Constant, ...]
    # The numbers of the node's output if it has few: as ``tolist()`` on the CPU, a copy on another
    # device.
    value: Any = None
    outermost: weakref.ref[nn.Module] | None = None  # the outermost running module, while it lives
    # The operands that are leaves and need grad, at the time of the call. All nodes of one call
    # have the same.
    leaves: tuple[LeafSnapshot, ...] = ()
    # The checkpointed region that the call ran in, while torch knows of it.
    frame: weakref.ref[Any] | None = None
    derivatives: int = 0  # how many derivatives the program had computed before it
    place: str | None = None  # the index that it assigned to, as Python writes it, if known
    gave_one: bool = False  # whether the call is known to have returned one tensor
    # The calls of its block, to run them again, and its place among them.
    logged: tuple[CallLog, int] | None = None

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Where gradient was lost on the way to an operand."""
        return tuple(cut for constant in self.constants for cut in constant.cuts)


def annotations_in(captured: Capture, records: Mapping[int, Record]) -> dict[int, Annotation]:
    """Return the annotations of a graph's nodes from their records.

    All nodes of one call have the same, but each constant is listed only at the node that takes it.
    """
    calls: dict[int, list[int]] = {}
    written: dict[Record, int] = {}
    found: dict[int, Annotation] = {}
    for i, record in records.items():
        facts = record.facts
        found[i] = _annotation(record, captured.nodes[i])
        if facts.constants:
            calls.setdefault(id(record), []).append(i)
        if facts.inplace and facts.end - facts.start > 1:
            last = written.get(record, i)
            written[record] = max(i, last, key=lambda j: sequence_nr(captured.nodes[j]))
    for ids in calls.values():
        _place_constants(captured, ids, found)
    for record, i in written.items():  # pow_() makes one more node and drops it
        found[i] = found[i]._replace(value=record.facts.value)
    return found


def _annotation(record: Record, node: Node) -> Annotation:
    facts = record.facts
    one_node = facts.end - facts.start == 1
    following = node.next_functions if one_node and facts.constants else ()
    module, function = facts.module, facts.function
    if function is torch.autograd.Function:
        function = custom_function(node)
    return Annotation(
        source=facts.source,
        module=module.path if module else None,
        module_root=module.root if module else None,
        modules=module.running if module else (),
        forward=forward_name(function),
        inplace=facts.inplace,
        constants=tuple(_placed(facts, constant, following) for constant in facts.constants),
        # The last node of a call made what the call returned.
        value=facts.value if sequence_nr(node) == facts.end - 1 else None,
        outermost=module.outermost if module else None,
        leaves=facts.leaves,
        frame=facts.frame,
        derivatives=facts.derivatives,
        place=facts.place,
        gave_one=facts.output is not None,
        logged=(record.log, record.place),
    )


def _placed(facts: CallFacts, constant: Constant, following: NextFunctions) -> Constant:
    inputs = _inputs_of_constants(facts.needed_grad, following)
    at = next(i for i, each in enumerate(facts.constants) if each is constant)
    return constant._replace(
        argument=_argument(facts.function, constant.position),
        arg_nr=inputs[at] if inputs else None,
    )


def _inputs_of_constants(needed_grad: Sequence[bool], following: NextFunctions) -> list[int] | None:
    """Return the argument position of each constant of a call with one node.

    Certain only when operands and inputs match one by one: operands without a derivative (a mask,
    an index) are not inputs, and some nodes reorder them.
    """
    if [child is not None for child, _ in following] != list(needed_grad):
        return None
    return [nr for nr, needed in enumerate(needed_grad) if not needed]


def _place_constants(captured: Capture, ids: list[int], found: dict[int, Annotation]) -> None:
    """Keep each constant of one call only at the node that takes it."""
    at: dict[int, list[Constant]] = {i: [] for i in ids}
    # Nodes are numbered in creation order: search the last one first.
    latest = sorted(ids, key=lambda i: captured.graph.nodes[i]["sequence_nr"], reverse=True)
    free = {i: list(captured.graph.nodes[i]["no_grad_inputs"]) for i in ids}
    for constant in found[ids[0]].constants:
        node, arg_nr = _consumer(captured, latest, constant, free)
        if len(ids) == 1 and constant.arg_nr is not None:
            arg_nr = constant.arg_nr
        free[node] = [place for place in free[node] if place["arg_nr"] != arg_nr]
        at[node].append(constant._replace(arg_nr=arg_nr))
    for i in ids:
        found[i] = found[i]._replace(constants=tuple(at[i]))


def _consumer(
    captured: Capture, latest: list[int], constant: Constant, free: dict[int, list[NoGradInput]]
) -> tuple[int, int | None]:
    """Return which node takes a constant, and its argument position where that is certain."""
    for i in latest:
        for place in free[i]:
            if place["argument"] is not None and place["argument"] == constant.argument:
                return i, place["arg_nr"]
    tensor = constant.tensor() if constant.tensor else None
    if tensor is not None:
        for i in latest:
            for saved in read_saved(captured.nodes[i]):
                if saved.value is tensor:
                    nr = next((p["arg_nr"] for p in free[i] if p["argument"] == saved.name), None)
                    return i, nr
    open_places = [(i, place["arg_nr"]) for i in latest for place in free[i]]
    return open_places[0] if len(open_places) == 1 else (latest[0], None)


def _argument(function: Any, position: int | str) -> str | None:
    if isinstance(position, int):
        place, item = position, ""
    elif position[0].isdigit():
        number, _, rest = position.partition("[")
        place, item = int(number), f"[{rest}"
    else:
        return position
    names = _parameters(function)
    return f"{names[place]}{item}" if place < len(names) else None


@functools.lru_cache(1024)
def _parameters(function: Any) -> tuple[str, ...]:
    """Return the names of a function's positional parameters that torch documents."""
    if isinstance(function, type):
        return function_arguments(function)
    # torch's own functions have no signature, but each one's testing override has.
    stand_in: Callable[..., Any] = get_testing_overrides().get(function, function)
    try:
        names = inspect.signature(stand_in).parameters
    except (TypeError, ValueError):
        return ()
    return tuple(names)


@functools.lru_cache(1024)
def forward_name(function: Any) -> str | None:
    """Return a function's public name: "torch.nn.functional.linear", "mul" for a method."""
    if isinstance(function, type):
        return function.__name__
    name = resolve_name(function)
    if name is None:
        own = getattr(function, "__name__", None)
        module = getattr(function, "__module__", None)
        return f"{module}.{own}" if own and module else own
    return str(name).removeprefix("torch.Tensor.").removesuffix(".__get__")


def was_watched(tensor: torch.Tensor) -> bool:
    """Return whether `gradwalk.watch` recorded how a tensor was made."""
    return weak_id_dict.get(tensor) is not None


def unrecorded_sources(tensor: Any) -> tuple[UnrecordedSource, ...]:
    """Return the unrecorded sources of a tensor that needs no grad; see `Origin`."""
    found = weak_id_dict.get(tensor)
    return found.unrecorded if isinstance(found, Origin) else ()


def cuts_of(tensor: Any) -> tuple[Cut, ...]:
    """Return where gradient was lost on the way to a tensor or array that needs no grad."""
    found = weak_id_dict.get(tensor)
    return found.cuts if isinstance(found, Origin) else ()


_PIECEWISE_LINEAR = frozenset(
    {"relu", "relu6", "leaky_relu", "rrelu", "prelu", "hardtanh", "threshold", "abs", "clamp"}
)
"""Functions whose second derivative is zero."""


class Derivatives(NamedTuple):
    """The derivatives that a loss was computed from."""

    where: SourceLine | None  # the line that computed the first of them
    # A piecewise linear function that was differentiated, with its line, if any.
    linear: tuple[str, SourceLine | None] | None


class Use(NamedTuple):
    """One use of a leaf."""

    where: SourceLine | None
    derivatives: Derivatives | None  # of the result, if it went into the loss


def uses_in(captured: Capture) -> dict[int, Use]:
    """Find one use of every leaf that `watch` saw, by ``id``; those of derivatives come first."""
    behind = _with_parents(records_in(captured).values())
    calls = [record for record in behind if differentiates(record.facts.function)]
    differentiated = _with_parents(parent for call in calls for parent in call.parents)
    linear = None
    for record in differentiated:
        name = (forward_name(record.facts.function) or "").rpartition(".")[2].rstrip("_")
        if name in _PIECEWISE_LINEAR:
            linear = name, record.facts.source
    first = min(calls, key=lambda call: call.facts.start, default=None)
    derivatives = None if first is None else Derivatives(first.facts.source, linear)
    found: dict[int, Use] = {}
    for records, of in ((differentiated, derivatives), (behind, None), (living_records(), None)):
        for record in records:
            for taken in record.facts.leaves:
                leaf = taken.tensor()
                if leaf is not None:
                    found.setdefault(id(leaf), Use(record.facts.source, of))
    return found


def _with_parents(records: Iterable[Record]) -> list[Record]:
    return list(walk(records, lambda record: record.parents))
