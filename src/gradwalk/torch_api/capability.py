"""Private names of torch as capabilities: looked up when first used, each with a fallback.

A release of torch may move or change any private name. Then one feature answers "unknown", and a
sentence says so; everything else works. Each private name is written once, as an argument of
`capability`, in one of two forms:

- ``"torch._C._current_graph_task_id"``: what torch has under a dotted name;
- ``"Tensor._version"``: an attribute of torch's objects. ``"Node._sequence_nr()"`` is a method, and
  ``"Node._saved_*"`` stands for all attributes with that prefix.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import re
import sys
import threading
from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any, TypeVar, cast

_C = TypeVar("_C", bound=Callable[..., Any])
_T = TypeVar("_T")

OLDEST, NEWEST = "2.10", "2.15"
"""The releases of torch that the tests run on."""

_lost: dict[str, None] = {}


def capability(
    *names: str, otherwise: Callable[..., Any], lost: str | None = None
) -> Callable[[Callable[..., _C]], _C]:
    """Decorate a function that makes a capability from what torch has under some private names.

    The decorated function gets what `find` returns for each name, tries it on a sample, and returns
    what is to be called from then on. It runs at the first call, in a thread of its own, where no
    mode of the program is active. If a name is missing or anything raises, the capability is
    ``otherwise``.

    Args:
        *names: The private names.
        otherwise: The fallback.
        lost: The loss that comes with the fallback, as the start of a sentence; None without one.
    """

    def declared(make: Callable[..., _C]) -> _C:
        def resolve() -> None:
            try:
                call, is_there = aside(lambda: make(*map(find, names))), True
            except Exception:  # torch may have anything there
                call, is_there = cast("_C", otherwise), False
                note(lost)
            # The same object, so that everybody who imported it calls C directly from now on.
            found.__setstate__((call, (), {}, {**about, "is_there": is_there}))

        def first_call(*args: Any, **kwargs: Any) -> Any:
            resolve()
            return found(*args, **kwargs)

        about = {"__doc__": make.__doc__, "__module__": make.__module__, "resolve": resolve}
        found: Any = functools.partial(first_call)
        found.__dict__.update(about)
        return cast("_C", found)

    return declared


def optional(name: str) -> Callable[[Any], Any]:
    """Return a function that reads a private attribute that only some objects have, else None."""

    def read(owner: Any) -> Any:
        try:
            return find(name)(owner)
        except AttributeError:
            return None

    return read


def named(name: str) -> Callable[[type], bool]:
    """Return a function that recognises a private class of torch's by its module and name."""
    return lambda kind: f"{kind.__module__}.{kind.__qualname__}" == name


def is_there(*capabilities: Callable[..., Any]) -> bool:
    """Whether torch has all of some capabilities, so that no fallback is used."""
    for each in capabilities:
        about = vars(each)
        if "is_there" not in about:
            about["resolve"]()
        if not vars(each)["is_there"]:
            return False
    return True


def is_loaded(name: str) -> bool:
    """Whether the program has imported a private module of torch's."""
    return name in sys.modules


def direct(call: _C) -> _C:
    """Return what a capability calls: for loops in which one more call would count."""
    is_there(call)
    return cast("_C", cast("Any", call).func)


def find(name: str) -> Any:
    """Return what torch has under a private name, or what reads it from an object.

    Raises:
        AttributeError, ImportError: torch has no such name.
    """
    owner, _, path = name.partition(".")
    if owner != "torch":
        if path.endswith("*"):
            return path[:-1]
        return methodcaller(path[:-2]) if path.endswith("()") else attrgetter(path)
    found: Any = importlib.import_module("torch")
    at = "torch"
    for part in path.split("."):
        at += f".{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(at)
    return found


def aside(work: Callable[[], _T]) -> _T:
    """Run a function in a new thread, where no mode, hook or transform of the program is active."""
    # While torch is imported no mode is active, and another thread would wait for the import's end.
    if getattr(getattr(sys.modules.get("torch"), "__spec__", None), "_initializing", False):
        return work()
    done: list[Callable[[], _T]] = []

    def run() -> None:
        try:
            found = work()
        except Exception as error:
            done.append(functools.partial(_raise, error))
        else:
            done.append(lambda: found)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, or has no threads
        run()
    else:
        thread.join()
    return done[0]()


def _raise(error: Exception) -> Any:
    raise error


def note(lost: str | None) -> None:
    """Remember what is lost, the start of a sentence of `lost_sentences`."""
    if lost is not None:
        _lost[lost] = None


def lost_sentences() -> list[str]:
    """Return a sentence for each part of gradwalk that this torch has no private name for.

    Example::

        >>> sentence("Source lines of custom Functions are unknown", "2.16.0")
        'Source lines of custom Functions are unknown with torch 2.16.0, which is newer than this \
version of gradwalk.'
    """
    return [sentence(each, torch_version()) for each in _lost]


def sentence(lost: str, version: str) -> str:
    """Return the sentence about a lost capability with a release of torch."""
    is_newer = _release(version) > _release(NEWEST)
    newer = ", which is newer than this version of gradwalk" if is_newer else ""
    return f"{lost} with torch {version}{newer}."


def torch_version() -> str:
    """Return the release of torch, also of one whose import fails."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    if version is None:
        try:
            version = importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            version = "of an unknown release"
    return str(version)


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()
