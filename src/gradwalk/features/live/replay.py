"""The watched calls behind a graph, to run them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...torch_api.reading import version_of
from ...tracing.annotate import Annotated
from ...tracing.call_log import CallLog, LoggedCall, Outside, Ref, Unknown, tensors_in_order
from ...tracing.source_line import SourceLine
from .program import Constant, Forward
from .tape import NotLiveError

_UNWATCHED = (
    "A live page runs the program again, and nothing has watched how {what} was computed. Compute "
    "it in a block `with gradwalk.watch():`, or show a function with gradwalk.interact()."
)

_Key = tuple[CallLog, int]


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
                f"A live page runs up to 600 calls of torch again, and the block that computed "
                f"{called} has more. Watch one step of it."
            )
        roots.append((log, place, nr))
    replay = _Replay({id(leaf): leaf for _, leaf in captured.leaves()})
    for log, place, _ in roots:
        replay.need_call(log, place)
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
    _calls: dict[int, set[int]] = field(default_factory=dict)  # id of a log -> its needed calls
    _logs: list[CallLog] = field(default_factory=list)  # in the order in which they are finished
    _last: dict[int, int] = field(default_factory=dict)
    _tensors: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    _fresh: dict[int, torch.Tensor] = field(default_factory=dict)  # by the id of the original
    _numbered: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)  # by id of a log

    def need_call(self, log: CallLog, place: int) -> None:
        """Need the calls of a log up to one of them."""
        self._last[id(log)] = max(place, self._last.get(id(log), -1))
        if log not in self._logs:
            self._logs.append(log)

    def prepare(self) -> None:
        """Choose the calls that the roots depend on, and copy the tensors from outside."""
        done: list[CallLog] = []
        waiting = list(self._logs)
        while waiting:
            log = waiting.pop(0)
            waiting += [other for other in self._choose(log) if other not in done]
            if log in done:
                done.remove(log)
            done.insert(0, log)
        self._logs = done

    def _choose(self, log: CallLog) -> list[CallLog]:
        needed: set[int] = set()
        chosen: set[int] = set()
        earlier: list[CallLog] = []
        for place in range(self._last[id(log)], -1, -1):
            call = log.calls[place]
            gives = {ref.number for ref in (*call.outputs, *call.changed)}
            is_last = place == self._last[id(log)]
            if not (is_last or call.reads or gives & needed):
                continue
            if gives and all(self._leaf(log, number) is not None for number in gives):
                continue  # a leaf is given, however it was made
            chosen.add(place)
            needed |= _refs([call.arguments, call.keywords])
        self._calls[id(log)] = chosen
        for number in sorted(needed):
            outside = log.outside.get(number)
            leaf = self._leaf(log, number)
            if outside is not None and outside.earlier is not None and leaf is None:
                other, _ = outside.earlier
                self.need_call(other, len(other.calls) - 1)
                earlier.append(other)
            elif leaf is not None or outside is not None:
                self._tensors[id(log), number] = self._new(outside, leaf)
        return earlier

    def _leaf(self, log: CallLog, number: int) -> torch.Tensor | None:
        """Return the leaf of the graph that has a number in a log."""
        if id(log) not in self._numbered:
            self._numbered[id(log)] = _numbered(log, list(self.originals.values()))
        return self._numbered[id(log)].get(number)

    def _new(self, outside: Outside | None, leaf: torch.Tensor | None) -> torch.Tensor:
        """Return a copy of a leaf or of a tensor from outside of the block."""
        given = leaf if outside is None else outside.tensor()
        known = None if given is None else self._fresh.get(id(given))
        if known is not None:
            return known
        if outside is not None and outside.copy is not None:
            copy = outside.copy.clone()
        elif given is not None and (outside is None or version_of(given) == outside.version):
            copy = given.detach().clone()
        else:
            raise NotLiveError(
                "A tensor that the program used is gone or was changed since, so a live page "
                "cannot run it again. Write the page right after the forward pass."
            )
        if leaf is not None:
            copy.requires_grad_()
            self.leaves[id(leaf)] = copy
        if given is not None:
            self._fresh[id(given)] = copy
        return copy

    def fresh_of(self, tensor: torch.Tensor | None) -> torch.Tensor | None:
        """Return the copy that runs in place of a tensor."""
        return None if tensor is None else self._fresh.get(id(tensor))

    def run(self, roots: Sequence[tuple[CallLog, int, int]]) -> list[torch.Tensor]:
        """Run the calls, and return the outputs."""
        results: dict[tuple[int, int], list[torch.Tensor]] = {}
        for log in self._logs:
            for place in sorted(self._calls[id(log)]):
                self.line = log.calls[place].line or log.lines.get(place)
                results[id(log), place] = self._call(log, log.calls[place])
        found = []
        for log, place, nr in roots:
            given = results[id(log), place]
            fitting = [each for each in given if len(given) == 1 or each.output_nr == nr]
            found.append(fitting[0])
        return found

    def _call(self, log: CallLog, call: LoggedCall) -> list[torch.Tensor]:
        arguments, keywords = self._given(log, call.arguments), self._given(log, call.keywords)
        if call.random is not None:
            torch.set_rng_state(call.random)
        with torch.set_grad_enabled(call.grad_mode):
            result = call.function(*arguments, **keywords)
        tensors = list(tensors_in_order(result))
        for ref, tensor in zip(call.outputs, tensors, strict=True):
            self._tensors.setdefault((id(log), ref.number), tensor)
        return tensors or [self._tensors[id(log), ref.number] for ref in call.changed]

    def _given(self, log: CallLog, value: Any) -> Any:
        if isinstance(value, Ref):
            outside = log.outside.get(value.number)
            key = id(log), value.number
            if key not in self._tensors and outside is not None and outside.earlier is not None:
                other, number = outside.earlier
                self._tensors[key] = self._tensors[id(other), number]
            return self._tensors[key]
        if isinstance(value, Unknown):
            raise NotLiveError(
                f"A live page cannot run a call with a {value.kind} again. Write the page without "
                "live=True."
            )
        if isinstance(value, dict):
            return {name: self._given(log, each) for name, each in value.items()}
        if type(value) in (tuple, list):
            return type(value)([self._given(log, each) for each in value])
        if isinstance(value, slice):
            return slice(self._given(log, value.start), self._given(log, value.stop), value.step)
        return value


def _numbered(log: CallLog, leaves: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the leaves of a graph by their numbers in a log."""
    found: dict[int, torch.Tensor] = {}
    unknown: list[torch.Tensor] = []
    for leaf in leaves:
        number = log.number_of(leaf)
        if number is None:
            unknown.append(leaf)
        else:
            found[number] = leaf
    # The module of a parameter is gone, and with it the log's reference; the graph has the tensor.
    for number, outside in log.outside.items():
        if outside.is_leaf and outside.requires_grad and outside.tensor() is None:
            same = next((leaf for leaf in unknown if _is_same(leaf, outside.copy)), None)
            if same is not None:
                unknown = [leaf for leaf in unknown if leaf is not same]
                found[number] = same
    return found


def _is_same(leaf: torch.Tensor, copy: torch.Tensor | None) -> bool:
    return copy is not None and copy.dtype == leaf.dtype and torch.equal(copy, leaf.detach())


def _refs(value: Any) -> set[int]:
    if isinstance(value, Ref):
        return {value.number}
    if isinstance(value, dict):
        return _refs(list(value.values()))
    if type(value) in (tuple, list):
        return set().union(*map(_refs, value))
    if isinstance(value, slice):
        return _refs([value.start, value.stop])
    return set()
