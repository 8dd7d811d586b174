"""Find the running line of the user's program: the innermost one outside torch and gradwalk."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

_LIBRARIES = tuple(
    f"{folder}{separator}"
    for folder in (Path(torch.__file__).parent, Path(__file__).parents[1])
    for separator in ("/", "\\")
)
_INSTALLED = ("site-packages", "dist-packages")
NO_FILE = "<string>"
"""The file name of code run from a string; Python 3.13 shows lines of ``python -c`` for any."""

_APPLY = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
_GENERATED_BY_TORCH = "<eval_with_key>"  # torch.fx compiles its graphs under this name


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's program.

    Attributes:
        file: The file, or the notebook's name for a cell.
        line: The line number, from 1.
        text: The line without indentation; empty if Python does not know it.
        function: The enclosing function, "<module>" at the top level.
    """

    file: str
    line: int
    text: str
    function: str

    def __str__(self) -> str:
        return f"{shown_file(self.file)}:{self.line}"


class SourceLines:
    """Finds the running line; reads each line's text once, when it runs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], SourceLine] = {}
        self._files: set[str] = set()

    def here(self) -> SourceLine | None:
        """Return the innermost running line of the user in this thread."""
        return self.at(sys._getframe(1))

    def at(self, frame: FrameType | None) -> SourceLine | None:
        """Return the innermost line of the user in ``frame`` or its callers."""
        while frame is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return None
        code = frame.f_code
        key = code.co_filename, frame.f_lineno, code.co_name
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(*key)
        return found

    def own(self) -> SourceLine | None:
        """Return the innermost running line outside installed libraries."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and is_installed(frame.f_code.co_filename):
            frame = frame.f_back
        return self.at(frame)

    def _read(self, file: str, line: int, function: str) -> SourceLine:
        if file not in self._files:
            self._files.add(file)
            linecache.checkcache(file)  # the file may have changed since Python last read it
        text = "" if file == NO_FILE else linecache.getline(file, line).strip()
        return SourceLine(file, line, text, function)


def function_frame() -> FrameType | None:
    """Return the outermost running ``autograd.Function.apply`` of this thread."""
    found = None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is _APPLY:
            found = frame
        frame = frame.f_back
    return found


@functools.lru_cache(4096)
def is_library(file: str) -> bool:
    """Return whether a file belongs to torch or to gradwalk."""
    return file.startswith((*_LIBRARIES, _GENERATED_BY_TORCH))


@functools.lru_cache(4096)
def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed library, including torch."""
    return is_library(file) or any(f"{s}{place}{s}" in file for place in _INSTALLED for s in "/\\")


def shown_file(file: str) -> str:
    """Return a file's name for display: "Cell In[3]" for a cell of the running notebook.

    Other files get their path in the project, from the working folder or a folder of ``sys.path``.
    The folders above it are private.
    """
    ipython = sys.modules.get("IPython")  # not imported yet means not running
    shell = ipython.get_ipython() if ipython is not None else None
    label = getattr(getattr(shell, "compile", None), "format_code_name", None)
    cell = label(file) if label is not None else None
    if cell:
        return " ".join(cell)
    try:
        working = os.getcwd()  # noqa: PTH109  runs for every line; a Path takes ten times as long
    except OSError:  # it was removed
        working = ""
    return _in_project(file, working, tuple(sys.path))


@functools.lru_cache(4096)
def _in_project(file: str, working: str, found_in: tuple[str, ...]) -> str:
    """Return a path relative to the project; a file outside any project keeps its name alone."""
    if not Path(file).is_absolute():
        return file
    home = str(Path("~").expanduser())
    folders = [] if is_installed(file) else [working]
    for folder in [*folders, *sorted(filter(None, found_in), key=len, reverse=True), working]:
        inside = folder.rstrip("/\\")
        if inside and file.startswith((f"{inside}/", f"{inside}\\")):
            is_too_high = f"{home}/".startswith(f"{inside}/") and inside != home
            if not is_too_high:
                return file[len(inside) + 1 :]
    return Path(file).name
