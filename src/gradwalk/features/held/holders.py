"""Say who holds a graph: chains of references in the words of a program."""

from __future__ import annotations

import gc
import re
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

import torch

from .referrers import LIBRARY, NODE, OPEN_WIDGET, TOOL, Referrers, Step, is_of_tool

_MOST_HOLDERS = 6
_MOST_PATHS = 200
_MOST_KINDS = 4  # of the objects of a cycle
_HISTORY = re.compile(r"_{1,3}|_\d+|_oh")
_HOOKS = re.compile(r"^(.*)\._(\w*?)_?hooks\[\d+\]$")
_REGISTERED = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")

_ADVICE = {
    "item": "Keep `{x}` there instead.",
    "attribute": "Keep `{x}` there instead.",
    "closure": "Let the function use `{x}`, or delete the function.",
    "hook": "Let the hook use `{x}`, or remove() it.",
    "traceback": "Delete the exception, as in `del error`, once it was read.",
    "generator": "Finish the generator or close() it, or let it yield `{x}`.",
    "ctx": "Use ctx.save_for_backward() instead of an attribute of ctx, which makes a cycle that "
    "nothing frees.",
    "grad": "Without create_graph=True this gradient has no graph. Otherwise call "
    "zero_grad(set_to_none=True) when the step is done.",
    "optimizer": "Detach what goes into the optimizer's state.",
    "output": "End the cell with a semicolon, or call `%reset -f out`.",
    "gradwalk": "Call close() of the widget, or delete the recording, once it was read.",
    "variable": "`del` the variable, or keep `{x}` in it.",
}
"""What to do, by the way in which a graph is held."""

HIDDEN = "nothing that Python's collector sees"


@dataclass(frozen=True)
class Holder:
    """A way in which something is held."""

    text: str  # the chain from a name: "history[3]"
    note: str  # what that is: "list, global of train.py"
    kind: str  # a key of the advice
    place: int | None = None  # the last index in ``text``, if it ends with one
    container: str = ""  # the list, dict, ... that holds it, if the chain ends with an item.
    own: int | None = None  # the ``id`` of the object of gradwalk that holds it

    @property
    def pattern(self) -> str:
        """The chain without the last index: equal for all items of one list."""
        return self.text if self.place is None else self.text[: self.text.rindex("[")] + "[*]"

    def __str__(self) -> str:
        return f"{self.text} ({self.note})" if self.note else self.text


def holders_of(key: int, referrers: Referrers) -> list[Holder]:
    """Return the ways in which names hold an object: one for each object that refers to it."""
    named = (_described(*name, key, (), referrers) for name in referrers.names[key])
    chains = (_nearest(key, each, referrers) for each in referrers.above[key])
    found = {each.text: each for each in (*named, *chains) if each is not None}
    return _without_history(list(found.values())[:_MOST_HOLDERS])


def _nearest(key: int, first: tuple[int, Step], referrers: Referrers) -> Holder | None:
    """Return the shortest chain from a name through an object that refers to another one."""
    waiting: deque[tuple[tuple[int, Step], ...]] = deque([(first,)])
    known = {key, first[0]}
    otherwise: Holder | None = None
    for _ in range(_MOST_PATHS):
        if not waiting:
            break
        path = waiting.popleft()
        at = path[0][0]
        for name, note in referrers.names[at]:
            holder = _described(name, note, at, path, referrers)
            if holder is not None and holder.kind != "output":
                return holder
            otherwise = otherwise or holder
        for above, step in referrers.above[at]:
            if above not in known:
                known.add(above)
                waiting.append(((above, step), *path))
    return otherwise


def _without_history(holders: list[Holder]) -> list[Holder]:
    """Drop IPython's other names for an entry of ``Out``, and names that it keeps for itself."""
    outputs = [each for each in holders if each.kind == "output"]
    rest = [each for each in holders if each.kind != "output"]
    named = [each for each in outputs if each.text.startswith("Out[")]
    return rest + (named or outputs[:1])


class _Chain:
    """A chain of steps from a name, put into words one by one.

    Attributes:
        text: The chain so far.
        note: What its first name is: "global of train.py".
        kind: A key of the advice.
        place: The last index, if the text ends with one.
    """

    def __init__(self, name: str, note: str) -> None:
        self.text, self.note, self.kind = name, note, "variable"
        self.place: int | None = None
        self._container = ""  # the last one, in words
        self._owner: str | None = None  # whose dict of attributes was the last object
        self._free: tuple[str, ...] = ()  # variables of a function's closure
        self._variable: str | None = None
        self._exception = ""
        self._of = ""

    def add(self, holder: Any, step: Step) -> None:
        """Append one step down from an object."""
        kind, what = step
        owner, self._owner = self._owner, None
        free, self._free = self._free, ()
        if kind == "item" and free:
            self._variable = free[what]
        elif kind == "item" and owner is not None:
            self._attribute(what, owner)
        elif kind == "attribute":
            self._attribute(what, f"attribute of {type(holder).__name__}")
        elif what is not None or kind in _WORDS:
            self._others(kind, what, holder)
        elif kind == "dict":
            is_class = isinstance(holder, type)
            self._owner = "class attribute" if is_class else f"attribute of {type(holder).__name__}"
        elif kind == "cell" and self._variable is not None:
            self._begin("closure", self._variable, f"closure of {self.words}")
        elif kind == "traceback":
            self._exception = f", in the traceback of {self.words}"
        elif isinstance(holder, TracebackType) and not self._exception:
            self._exception = f", in {self.words}"

    def _others(self, kind: str, what: Any, holder: Any) -> None:
        if kind == "item":
            self._item(holder, what)
        elif kind in _WORDS:
            self._of = self.words
            self.text, self.place = f"{_WORDS[kind]} of {self._of}", None
            self._set_kind("item")
        elif kind == "grad":
            self.text, self.kind = f"{self.text}.grad", "grad"
        elif kind == "closure":
            self._free = what
        elif kind == "generator":
            word, name, where = what
            self._begin(kind, name, f"local of the {word} {self.words}, {where}")
        elif kind == "frame":
            self._begin("traceback", what[0], f"local of {what[1]}{self._exception}")

    def _attribute(self, name: str, container: str) -> None:
        self.text, self.place, self._container = f"{self.text}.{name}", None, container
        self._of = ""
        self._set_kind("attribute")

    def _item(self, holder: Any, what: Any) -> None:
        self._of = self.words
        self.text += f"[{_written(what)}]"
        self.place = what if isinstance(holder, (list, tuple, deque)) else None
        if "attribute" not in self._container:
            self._container = type(holder).__name__
        self._set_kind("item")

    def _set_kind(self, kind: str) -> None:
        if self.kind in ("variable", "attribute", "item"):
            self.kind = kind

    def _begin(self, kind: str, name: str, note: str) -> None:
        """Go on from a variable inside of the object that was reached."""
        self.kind = "hook" if kind == "closure" and " hook of " in note else kind
        self.text, self.note, self.place, self._container, self._of = name, note, None, "", ""

    @property
    def words(self) -> str:
        """The chain in words: modules and hooks by their names."""
        text = _REGISTERED.sub(r".\1", self.text)
        hook = _HOOKS.match(text)
        return f"a {hook[2].replace('_', ' ')} hook of {hook[1]}" if hook else text

    def holder(self) -> Holder:
        """Return the chain so far."""
        note = self._container
        if "attribute" not in note:
            note = ", ".join(filter(None, (note, self.note)))
        return Holder(self.words, note, self.kind, self.place, self._of)


_FINALIZERS = getattr(weakref.finalize, "_registry", None)
_WORDS = {"key": "a key", "element": "an element", "defaults": "the defaults"}


def _described(
    name: str, note: str, root: int, path: Sequence[tuple[int, Step]], referrers: Referrers
) -> Holder | None:
    """Put a chain into words; None for one inside of gradwalk."""
    found = referrers.found
    if note == TOOL or any(is_of_tool(found[key]) for key, _ in path):
        return Holder("the last results of IPython", "", "output")
    chain = _first(name, note)
    for key, step in path:
        each = found[key]
        if type(each).__module__.startswith("gradwalk."):
            if any(found[above] is _FINALIZERS for above, _ in path):
                return None  # a pass that `watch` recorded, which is freed with its output
            if note == OPEN_WIDGET or note.startswith(LIBRARY):
                return Holder(f"an open {type(each).__name__}", "", "gradwalk", own=key)
            return Holder(chain.words, type(each).__name__, "gradwalk", own=key)
        if isinstance(each, FrameType) and step[0] == "other":
            return None  # its own copy of its variables; the frame itself is a holder, too
        if isinstance(each, torch.optim.Optimizer):
            chain.kind = "optimizer"
        chain.add(each, step)
    if note == OPEN_WIDGET and not path:
        return Holder(f"an open {type(found[root]).__name__}", "", "gradwalk", own=root)
    if _HISTORY.fullmatch(name) or (name == "Out" and note == "variable"):
        chain.kind = "output"
    return chain.holder()


def _first(name: str, note: str) -> _Chain:
    """Return the chain of a name alone."""
    if note == NODE:
        chain = _Chain("ctx", f"of {name}")
        chain.kind = "ctx"
        return chain
    if note.startswith(LIBRARY):
        return _Chain(f"{note.removeprefix(LIBRARY)}.{name}", "")
    return _Chain("Out" if name == "_oh" else name, note)


def _written(key: Any) -> str:
    if isinstance(key, (str, int, float, tuple)):
        try:
            text = repr(key)
        except Exception:  # a user's class
            text = "…"
        return text if len(text) <= 40 else f"{text[:39]}…"
    return type(key).__name__


def collapsed(holders: Iterable[Holder]) -> list[str]:
    """Put holders into words, with the items of one list as one: "history[0..3] (list)"."""
    places: dict[tuple[str, str], list[int]] = {}
    for each in holders:
        places.setdefault((each.pattern, each.note), []).extend(
            [] if each.place is None else [each.place]
        )
    found = []
    for (pattern, note), at in places.items():
        text = pattern.replace("[*]", f"[{_ranges(at)}]") if at else pattern
        found.append(f"{text} ({note})" if note else text)
    return found


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs[:4]) + (
        ", …" if len(runs) > 4 else ""
    )


def advice_for(holders: Iterable[Holder], is_scalar: bool) -> str:
    """Say what frees the graph, for the first ways in which it is held."""
    instead = "loss.item()` or `loss.detach()" if is_scalar else "tensor.detach()"
    kinds = list(dict.fromkeys(each.kind for each in holders))
    if len(kinds) > 1 and "variable" in kinds:  # the next iteration sets it anew
        kinds.remove("variable")
    return " ".join(dict.fromkeys(_ADVICE[kind].replace("{x}", instead) for kind in kinds[:2]))


def unnamed(keys: Sequence[int], referrers: Referrers) -> str:
    """Describe who holds some objects that no name leads to."""
    for key in keys:
        garbage = referrers.garbage(key)
        if garbage:
            names = (type(each).__name__ for each in garbage if type(each) is not dict)
            kinds = list(dict.fromkeys(names)) or ["dict"]
            return (
                f"objects that refer to each other in a cycle ({', '.join(kinds[:_MOST_KINDS])}), "
                "until Python's collector runs: gc.collect() frees them"
            )
    described = [_topmost(key, referrers) for key in keys]
    return next((each for each in described if not each.startswith(HIDDEN)), described[0])


def _topmost(key: int, referrers: Referrers) -> str:
    """Describe the last object above one that no name leads to."""
    at, known = key, {key}
    while True:
        above = [each for each, _ in referrers.above[at] if each not in known]
        if not above:
            break
        at = above[0]
        known.add(at)
    each = referrers.found[at]
    if at == key:
        frozen = ", or an object that gc.freeze() has hidden" if gc.get_freeze_count() else ""
        return f"{HIDDEN} (C++ code, or a call that is running{frozen})"
    if isinstance(each, dict) and each and all(map(callable, each.values())):
        return "a hook of an autograd node"
    return f"a {type(each).__name__} that no name leads to"
