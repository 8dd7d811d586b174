"""Who holds an object: chains of references from names that the user knows.

Python's collector says which objects refer to an object, in one pass over all objects. A pass is
needed only while an object has more references than the names and the holders that are known.
"""

from __future__ import annotations

import gc
import inspect
import signal
import sys
import sysconfig
import types
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import Node

from ...graph.names import Names
from ...hosts.host import open_widgets
from ...hosts.this_host import frame_locals, this_host
from ...torch_api.reading import hooks_of
from ...tracing.source_line import is_installed
from .contents import contents

Step = tuple[str, Any]
"""How an object holds another one: a kind, and the index, the key or the name."""

_MOST_PASSES = 20
_AT_ONCE = 16  # objects in one pass: it compares each reference with all of them
_MOST_OBJECTS = 3_000
_DEEPEST = 14
_MOST_GARBAGE = 200  # objects of a cycle
_OWN = str(Path(__file__).parents[2])

LIBRARY = "of the library "  # the start of the note on a variable of a library's module
OPEN_WIDGET, NODE, TOOL = "open widget", "node", "tool"  # notes on other names

_TOOLS = {"IPython", "ipykernel", "traitlets", "executing", "stack_data"}
"""Packages whose objects keep results and tracebacks of a notebook, and refer to each other."""

_STANDARD = sysconfig.get_paths()["stdlib"]


class Referrers:
    """The objects above some objects, up to names.

    Attributes:
        found: ``id`` -> each object above the given ones, and these.
        above: ``id`` of an object -> the ``id`` objects of its holders, each with the step between.
        names: ``id`` of an object -> its names, each with a note.
    """

    def __init__(self, found: dict[int, Any], names: Names) -> None:
        """Begin with objects by ``id``; nothing else of the caller may refer to them."""
        self.found = found
        self.above: dict[int, list[tuple[int, Step]]] = defaultdict(list)
        self.names: dict[int, list[tuple[str, str]]] = defaultdict(list)
        self._called = names
        self._known: dict[int, int] = defaultdict(int)  # references that are explained
        self._spread: set[int] = set()  # holders whose references have been read
        self._frames = _running_frames()
        self._handlers = _signal_handlers()
        self._open = [*_open_spaces(self._frames), self._handlers]
        self._named: set[tuple[int, int]] = set()  # a dict of variables, and an object in it
        self._spaces = _namespaces(self._frames)
        self._spaces[id(self._handlers)] = "handler of a signal"
        self._unseen = {
            id(each): (container, step, str(name), self._spaces[id(space)])
            for space in self._users_spaces()
            for name, container in list(space.items())
            for step, each in contents(container)
        }
        self._alone = _references({0: object()}, 0)
        self._passes = 0
        self._most = len(found) + _MOST_OBJECTS

    def search(self) -> None:
        """Find the holders of the objects, their holders, and so on up to names."""
        frontier = list(self.found)
        for _ in range(_DEEPEST):
            self._name_variables(set(frontier))
            frontier = self._expand([key for key in frontier if not self._is_end(key)])
            if not frontier:
                break

    def _users_spaces(self) -> list[dict[str, Any]]:
        """Return the dicts of variables of the program, without libraries."""
        modules = (getattr(each, "__dict__", None) for each in list(sys.modules.values()))
        spaces = [*self._open, *modules]
        known = {id(space): space for space in spaces if type(space) is dict}
        notes = self._spaces
        return [known[key] for key in known.keys() & notes.keys() if LIBRARY not in notes[key]]

    def _name_variables(self, keys: set[int]) -> None:
        """Name objects after the variables that running code sees; it saves a pass."""
        for key in keys & self._unseen.keys():
            container, step, name, note = self._unseen[key]
            self._known[key] += 1
            self.found[id(container)] = container
            self.above[key].append((id(container), step))
            if (name, note) not in self.names[id(container)]:
                self.names[id(container)].append((name, note))
        for name, note, value in _locals_of(self._frames):
            if (key := id(value)) in keys:
                self._known[key] += 1
                if name.isidentifier():  # not one that a tool has put there
                    self.names[key].append((name, note))
        for space in self._open:
            for name, value in list(space.items()):
                if (key := id(value)) in keys:
                    self.names[key].append((str(name), self._spaces[id(space)]))
                    self._known[key] += 1
                    self._named.add((id(space), key))

    def _is_end(self, key: int) -> bool:
        """Whether an object has a name that suffices, so that nobody asks who holds it."""
        each = self.found[key]
        if key in self._spaces:
            return True
        if is_of_tool(each):
            self.names[key].append(("IPython", TOOL))
        elif isinstance(each, types.ModuleType):
            self.names[key].append((each.__name__, "module"))
        elif isinstance(each, type):
            self.names[key].append((each.__qualname__, "class"))
        elif issubclass(type(each), torch.Tensor) and each.is_leaf:
            if (name := self._called.name_of(each)) is None:
                return False
            self.names[key].append((name, ""))
        elif isinstance(each, nn.Module):
            place = self._called.place_of(each)
            if place is None:
                return False
            self.names[key].append((".".join(filter(None, place)), ""))
        elif isinstance(each, Node) and key in self._spread:
            self.names[key].append((type(each).__name__, NODE))
        else:
            return False
        return True

    def _expand(self, waiting: list[int]) -> list[int]:
        """Find the holders of objects; return the new ones."""
        new: list[int] = []
        while waiting and self._passes < _MOST_PASSES and len(self.found) < self._most:
            waiting = [key for key in waiting if self._is_held_otherwise(key)]
            batch, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            if not batch:
                break
            self._passes += 1
            self._take(gc.get_referrers(*[self.found[key] for key in batch]), new)
        return new

    def _is_held_otherwise(self, key: int) -> bool:
        return _references(self.found, key) - self._alone > self._known[key]

    def _take(self, holders: list[Any], new: list[int]) -> None:
        """Note what holders hold."""
        ours = {id(self.found), id(holders), *map(id, self._frames)}
        for i, holder in enumerate(holders):
            holders[i] = None
            key = id(holder)
            if key in ours or key in self._spread:
                continue
            self._spread.add(key)
            held = [id(each) for each in gc.get_referents(holder)]
            wanted = {each for each in held if each in self.found}
            wanted.discard(key)
            wanted -= {each for space, each in self._named if space == key}
            for each in held:
                if each in wanted:
                    self._known[each] += 1
            if key in self._spaces:
                for each, (_, name) in _steps(holder, wanted):
                    self.names[each].append((str(name), self._spaces[key]))
                continue
            for each, step in _steps(holder, wanted):
                self.above[each].append((key, step))
            if key not in self.found:
                self.found[key] = holder
                new.append(key)

    def garbage(self, key: int) -> list[Any]:
        """Return the objects above one, if they are garbage: nothing but they refers to them."""
        above: dict[int, Any] = {}
        waiting = [each for each, _ in self.above[key]]
        while waiting:
            each = waiting.pop()
            if each not in above:
                above[each] = self.found[each]
                waiting += [holder for holder, _ in self.above[each]]
        if not above or len(above) > _MOST_GARBAGE:
            return []
        probe = object()
        above[0] = self.found[0] = probe
        del probe
        # Reading an instance's attributes may give it a dict, which only the instance holds.
        inside = Counter(id(to) for each in above.values() for to in gc.get_referents(each))
        alone = _references(above, 0)
        del above[0], self.found[0]
        is_held = any(_references(above, each) - alone != inside[each] for each in above)
        return [] if is_held else list(above.values())


def is_of_tool(each: Any) -> bool:
    """Whether an object belongs to a notebook's host."""
    return str(type(each).__module__).partition(".")[0] in _TOOLS


def _references(found: Mapping[int, Any], key: int) -> int:
    """Count the references to an object of a dict; call it in the same way for all of them."""
    return sys.getrefcount(found[key])


def _running_frames() -> list[types.FrameType]:
    """Return the frames of all threads, without those of gradwalk and of a notebook's host."""
    found = []
    waiting: list[types.FrameType | None] = list(sys._current_frames().values())
    while waiting:
        frame = waiting.pop()
        while frame is not None:  # it ends as None: a frame that holds itself is never freed
            module = str(frame.f_globals.get("__name__"))
            is_tool = module.partition(".")[0] in _TOOLS
            if not is_tool and not frame.f_code.co_filename.startswith(_OWN):
                found.append(frame)
            frame = frame.f_back
    return found


def _open_spaces(frames: Iterable[types.FrameType]) -> list[dict[str, Any]]:
    """Return the dicts of the variables that running code sees, each once."""
    others = this_host().variables(), open_widgets(), vars(sys)  # sys.last_value holds frames
    spaces = [*(frame.f_globals for frame in frames), *others]
    return list({id(space): space for space in spaces}.values())


def _signal_handlers() -> dict[str, Any]:
    """Return the functions that run at signals, which only C code holds."""
    found = {f"signal.getsignal(signal.{each.name})": each for each in signal.Signals}
    handlers = {name: signal.getsignal(number) for name, number in found.items()}
    return {name: each for name, each in handlers.items() if callable(each)}


def _locals_of(frames: Iterable[types.FrameType]) -> Iterator[tuple[str, str, Any]]:
    """Yield the variables of running functions: name, note and value.

    Those of closures are left out: their cells hold the values, and the collector sees cells.
    """
    for frame in frames:
        code = frame.f_code
        if code.co_flags & inspect.CO_OPTIMIZED:
            cells = {*code.co_cellvars, *code.co_freevars}
            for name, value in frame_locals(frame).items():
                if name not in cells:
                    yield name, f"local of {code.co_name}()", value


def _namespaces(frames: Iterable[types.FrameType]) -> dict[int, str]:
    """Return the ``id`` of each dict of variables -> a note on its variables."""
    found: dict[int, str] = {}
    for name, module in list(sys.modules.items()):
        space = getattr(module, "__dict__", None)
        if type(space) is dict:
            file = space.get("__file__")
            is_users = name == "__main__" or (
                isinstance(file, str) and not is_installed(file) and not file.startswith(_STANDARD)
            )
            note = f"global of {_file_of(space, name)}" if is_users else f"{LIBRARY}{name}"
            found.setdefault(id(space), note)
    for frame in frames:
        found.setdefault(id(frame.f_globals), f"global of {_file_of(frame.f_globals, '')}")
        if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            found.setdefault(id(frame.f_locals), "variable")
    if cells := this_host().variables():
        found[id(cells)] = "variable"
    if widgets := open_widgets():
        found[id(widgets)] = OPEN_WIDGET
    return found


def _file_of(space: Mapping[str, Any], name: str) -> str:
    file = space.get("__file__")
    return file.replace("\\", "/").rpartition("/")[2] if isinstance(file, str) else name or "a cell"


def _steps(holder: Any, wanted: set[int]) -> Iterator[tuple[int, Step]]:
    """Yield how an object holds each of some others."""
    left = set(wanted)
    for child, step in _known_steps(holder):
        if child in wanted:
            left.discard(child)
            yield child, step
    for child in left:
        yield child, ("other", type(holder).__name__)


def _known_steps(holder: Any) -> Iterator[tuple[int, Step]]:
    if isinstance(holder, dict):
        for key, value in list(dict.items(holder)):
            yield id(value), ("item", key)
            yield id(key), ("key", None)
    elif isinstance(holder, (list, tuple, deque)):
        yield from ((id(value), ("item", i)) for i, value in enumerate(holder))
    elif isinstance(holder, (set, frozenset)):
        yield from ((id(value), ("element", None)) for value in holder)
    elif isinstance(holder, type):  # its attribute __dict__ hides the dict
        dicts = (each for each in gc.get_referents(holder) if type(each) is dict)
        yield from ((id(each), ("dict", None)) for each in dicts)
    elif type(holder) in _STEPS:
        yield from _STEPS[type(holder)](holder)
    else:
        yield from _of_instance(holder)


def _of_function(function: types.FunctionType) -> Iterator[tuple[int, Step]]:
    yield id(function.__closure__), ("closure", function.__code__.co_freevars)
    yield id(function.__dict__), ("dict", None)
    yield id(function.__defaults__), ("defaults", None)
    yield id(function.__kwdefaults__), ("defaults", None)


def _of_cell(cell: types.CellType) -> Iterator[tuple[int, Step]]:
    yield id(cell.cell_contents), ("cell", None)


def _of_traceback(traceback: types.TracebackType) -> Iterator[tuple[int, Step]]:
    yield id(traceback.tb_frame), ("frame", None)
    yield id(traceback.tb_next), ("frame", None)


def _of_generator(generator: Any) -> Iterator[tuple[int, Step]]:
    names = ("gi_frame", "cr_frame", "ag_frame")
    frame = next(getattr(generator, name) for name in names if hasattr(generator, name))
    if frame is not None:
        word = type(generator).__name__.replace("_", " ")
        yield id(frame), ("frame", None)
        for child, (_, where) in _of_frame(frame):
            yield child, ("generator", (word, *where))


def _of_frame(frame: types.FrameType) -> Iterator[tuple[int, Step]]:
    where = f"{frame.f_code.co_name}() at {_file_of(frame.f_globals, '')}:{frame.f_lineno}"
    for name, value in frame_locals(frame).items():
        yield id(value), ("frame", (name, where))


def _of_instance(holder: Any) -> Iterator[tuple[int, Step]]:
    if isinstance(holder, torch.Tensor):
        yield id(hooks_of(holder)), ("attribute", "_backward_hooks")
    if isinstance(holder, BaseException):
        yield id(holder.__traceback__), ("traceback", None)
        yield id(holder.__context__), ("attribute", "__context__")
        yield id(holder.__cause__), ("attribute", "__cause__")
    own = own_dict(holder)
    if own is not None:
        yield id(own), ("dict", None)
        for name, value in list(own.items()):
            yield id(value), ("attribute", name)
    for name, member in _members(type(holder)):
        with suppress(AttributeError):  # an empty slot
            yield id(member.__get__(holder)), ("attribute", name)


_STEPS: dict[type, Callable[[Any], Iterator[tuple[int, Step]]]] = {
    types.FunctionType: _of_function,
    types.CellType: _of_cell,
    types.TracebackType: _of_traceback,
    types.FrameType: _of_frame,
    types.GeneratorType: _of_generator,
    types.CoroutineType: _of_generator,
    types.AsyncGeneratorType: _of_generator,
}


def own_dict(holder: Any) -> dict[str, Any] | None:
    """Return the dict of an object's attributes, without running code of its class."""
    try:
        own = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return None
    return own if type(own) is dict else None


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the slots of a class, and the members that C code declares."""
    for base in cls.__mro__:
        for name, each in vars(base).items():
            if type(each) is types.MemberDescriptorType:
                yield name, each
