"""The watched calls behind a graph, to run them again."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...torch_api.reading import base_of, version_of
from ...tracing.annotate import Annotated
from ...tracing.call_log import (
    MOST_CALLS,
    CallLog,
    LoggedCall,
    Outside,
    Token,
    Unknown,
    keywords_of,
    tensors_in_order,
)
from ...tracing.records import LeafSnapshot
from ...tracing.source_line import SourceLine
from .program import Constant, Forward
from .tape import NotLiveError

_UNWATCHED = (
    "A live page runs the program again, and nothing has watched how {what} was computed. Compute "
    "it in a block `with gradwalk.watch():`, or show a function with gradwalk.interact()."
)

_GONE = (
    "A tensor that the program used is gone or was changed since, so a live page cannot run it "
    "again. Write the page right after the forward pass, before a step of the optimizer."
)
_Stand = Token | LeafSnapshot | Outside
"""Stands for a tensor in a logged call."""


def watched_forward(captured: Annotated) -> Forward:
    """Return the watched calls behind a graph, ready to run again."""
    names = captured.graph.nodes(data="name")
    roots: list[tuple[CallLog, int, int]] = []
    for node, nr in captured.roots:
        seen = captured.annotations.get(node)
        called = names[node] or "the output"
        if seen is None or seen.logged is None:
            raise NotLiveError(_UNWATCHED.format(what=called))
        log, place = seen.logged
        if log.is_full:
            raise NotLiveError(
                f"A live page runs up to {MOST_CALLS} calls of torch again, and the block that "
                f"computed {called} has more. Watch one step of it."
            )
        roots.append((log, place, nr))
    replay = _Replay({id(leaf): leaf for _, leaf in captured.leaves()})
    for log, place, _ in roots:
        replay.need_root(log, place)
    replay.prepare()
    constants = []
    for i, extra in enumerate(captured.extras, captured.first_extra):
        tensor = replay.fresh_of(extra.tensor)
        if extra.kind == "constant" and tensor is not None:
            constants.append(Constant(i, captured.drawn.nodes[i]["name"], tensor))
    return Forward(
        run=lambda: replay.run(roots),
        leaves=replay.leaves,
        constants=constants,
        line=lambda: replay.line,
    )


@dataclass
class _Replay:
    """A slice of the calls, and the tensors of its run."""

    originals: Mapping[int, torch.Tensor]  # the leaves of the graph, by id
    leaves: dict[int, torch.Tensor] = field(default_factory=dict)  # id of a leaf -> the new one
    line: SourceLine | None = None
    _roots: set[tuple[int, int]] = field(default_factory=set)  # number of a log, and place in it
    _logs: dict[int, CallLog] = field(default_factory=dict)  # by their number
    _last: dict[int, int] = field(default_factory=dict)  # number of a log -> its last root
    # The calls that the roots depend on, in order, each with the number of its log and its place.
    _calls: list[tuple[int, int, LoggedCall]] = field(default_factory=list)
    _tensors: dict[int, torch.Tensor] = field(default_factory=dict)  # by the id of their stand
    _fresh: dict[int, torch.Tensor] = field(default_factory=dict)  # by the id of the original
    _used: dict[int, str] = field(default_factory=dict)  # id of a leaf -> its version and numbers

    def need_root(self, log: CallLog, place: int) -> None:
        """Need the call of a log that gave an output of the graph."""
        if place >= len(log.calls):
            raise NotLiveError(_GONE)
        self._roots.add((log.number, place))
        self._last[log.number] = max(place, self._last.get(log.number, -1))
        self._add(log)

    def _add(self, log: CallLog) -> None:
        waiting = [log]
        for each in waiting:  # grows
            if each.number not in self._logs:
                self._logs[each.number] = each
                waiting += each.earlier

    def prepare(self) -> None:
        """Choose the calls that the roots depend on, and copy the tensors from outside."""
        given: set[int] = set()  # the tokens of every call
        needed: dict[int, _Stand] = {}
        for number, log in sorted(self._logs.items(), reverse=True):
            for place in range(self._last.get(number, len(log.calls) - 1), -1, -1):
                call = LoggedCall(*log.calls[place])
                made = set(map(id, call.outputs))
                given |= made
                if (number, place) in self._roots or call.reads or made & needed.keys():
                    self._calls.append((number, place, call))
                    needed |= {id(each): each for each in _stands(call.given)}
        self._calls.reverse()
        for each in needed.values():
            if isinstance(each, LeafSnapshot):
                self._tensors[id(each)] = self._new_leaf(each)
            elif isinstance(each, Outside) and id(each.token) not in given:
                self._tensors[id(each)] = self._new(each)

    def _new_leaf(self, snapshot: LeafSnapshot) -> torch.Tensor:
        """Return a copy of a leaf as an operation used it."""
        leaf, numbers = snapshot.tensor(), repr((snapshot.version, snapshot.value))
        if leaf is None:  # its module is gone, and the graph keeps it, so that its id is its own
            leaf = self.originals.get(snapshot.tensor.key)
        if leaf is None or self._used.setdefault(id(leaf), numbers) != numbers:
            raise NotLiveError(_GONE)
        known = self._fresh.get(id(leaf))
        if known is not None:
            return known
        if snapshot.value is not None:
            copy = torch.tensor(snapshot.value, dtype=leaf.dtype).reshape(leaf.shape)
        elif version_of(leaf) == snapshot.version:
            copy = leaf.detach().clone()
        else:
            raise NotLiveError(_GONE)
        if id(leaf) in self.originals:
            self.leaves[id(leaf)] = copy.requires_grad_()
        self._fresh[id(leaf)] = copy
        return copy

    def _new(self, outside: Outside) -> torch.Tensor:
        """Return a copy of a tensor from outside of the block."""
        given = outside.tensor()
        known = None if given is None else self._fresh.get(id(given))
        if known is not None:
            return known
        if outside.copy is not None:
            copy = outside.copy.clone()
        elif given is not None and version_of(given) == outside.version:
            copy = given.detach().clone()
        else:
            raise NotLiveError(_GONE)
        if given is not None:
            self._fresh[id(given)] = copy
        return copy

    def fresh_of(self, tensor: torch.Tensor | None) -> torch.Tensor | None:
        """Return the copy that runs in place of a tensor."""
        return None if tensor is None else self._fresh.get(id(tensor))

    def run(self, roots: Sequence[tuple[CallLog, int, int]]) -> list[torch.Tensor]:
        """Run the calls, and return the outputs."""
        results: dict[tuple[int, int], list[torch.Tensor]] = {}
        tensors = dict(self._tensors)
        for number, place, call in self._calls:
            self.line = call.line
            if call.reads and not all(_is_there(each, tensors) for each in _stands(call.given)):
                continue  # it read what no leaf of the graph has a part in
            results[number, place] = _run(call, tensors)
        found = []
        for log, place, nr in roots:
            given = results[log.number, place]
            fitting = [each for each in given if len(given) == 1 or each.output_nr == nr]
            found.append(fitting[0])
        return found


def _run(call: LoggedCall, tensors: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    """Run a call, add what it gives to the tensors, and return that."""
    given, words = keywords_of(call)
    arguments = [_real(each, tensors) for each in given]
    keywords = {name: _real(each, tensors) for name, each in words.items()}
    if call.random is not None:
        torch.set_rng_state(call.random)
    with torch.set_grad_enabled(call.grad_mode):
        result = call.function(*arguments, **keywords)
    outputs = list(tensors_in_order(result)) or [arguments[0]]  # `__setitem__` returns None
    made = outputs
    if call.has_base:
        base = base_of(outputs[0])
        made = [*outputs, outputs[0] if base is None else base]
    if not call.reads:
        tensors |= {id(one): each for one, each in zip(call.outputs, made, strict=True)}
    return outputs


def _real(value: Any, tensors: Mapping[int, torch.Tensor]) -> Any:
    """Return an argument of a logged call with tensors in it."""
    kind = type(value)
    if kind is Outside and id(value.token) in tensors:
        return tensors[id(value.token)]
    if kind is LeafSnapshot or kind is Outside or isinstance(value, weakref.ref):
        if id(value) not in tensors:
            raise NotLiveError(_GONE)
        return tensors[id(value)]
    if kind is Unknown:
        raise NotLiveError(
            f"A live page cannot run a call with a {value.kind} again. Write the page without "
            "live=True."
        )
    if kind is tuple or kind is list:
        return kind([_real(each, tensors) for each in value])
    if kind is slice:
        return slice(*(_real(each, tensors) for each in (value.start, value.stop, value.step)))
    return value


def _is_there(stand: _Stand, tensors: Mapping[int, torch.Tensor]) -> bool:
    return id(stand) in tensors


def _stands(value: Any) -> Iterator[_Stand]:
    """Yield what stands for tensors in the arguments of a logged call."""
    kind = type(value)
    if kind is LeafSnapshot or isinstance(value, weakref.ref):
        yield value
    elif kind is Outside:
        yield value
        if value.token is not None:
            yield value.token
    elif kind is tuple or kind is list:
        for each in value:
            yield from _stands(each)
    elif kind is slice:
        yield from _stands((value.start, value.stop, value.step))
