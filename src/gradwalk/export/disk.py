"""Read and write files, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Any

_LONGEST_SHOWN = 100  # characters of a path, in a sentence


def write_file(path: Any, content: str | bytes, caller: str) -> Path:
    """Write a file; if that fails, keep the old one.

    Through a link, the file it points to is replaced. Devices and pipes are written to directly.

    ``content``: text, which is written as UTF-8, or bytes.
    """
    given = read_path(path, caller)
    data = content.encode("utf-8") if isinstance(content, str) else content
    mode = _mode(given)
    if not (mode is None or stat.S_ISREG(mode)):
        try:
            _write_directly(given, data)
        except OSError as error:
            advice = "Give another path."
            if error.errno == errno.ENXIO:
                advice = "Nobody reads from this pipe: start the reader first, or give a file."
            raise _refused(given, caller, error, advice) from error
        return given
    file = Path(os.path.realpath(given))
    # The name is known before the file exists, so that it can be removed after any interrupt.
    temporary = file.with_name(f".gradwalk-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as stream:
            if mode is not None:  # before anything can be read from it
                temporary.chmod(mode & 0o777)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            advice = "Give a path with enough room that you may write to."
            if mode is not None:
                advice = f"The old file is unchanged. {advice}"
            raise _refused(given, caller, error, advice) from error
        raise
    return given


def _write_directly(file: Path, data: bytes) -> None:
    """Write to a device or a pipe; refuse a pipe without a reader, which would wait for ever."""
    descriptor = os.open(file, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "wb") as stream:  # noqa: PTH123  it is open already
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        stream.write(data)


def read_path(path: Any, caller: str) -> Path:
    """Check a path to write to, in an existing folder."""
    file = _path(path, caller, "the name of a file, such as 'graph.svg'")
    try:
        mode = _mode(file)
        folder = Path(os.path.realpath(file)).parent
        is_there = _mode(folder) is not None and folder.is_dir()
    except OSError as error:
        raise _refused(file, caller, error, "Give another path.") from error
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(
            f"{caller}() was given {_shown(file)}, which is a folder. Give the name of a file in "
            "it."
        )
    if mode is None and not is_there:
        raise FileNotFoundError(
            f"{caller}() cannot write {_shown(file)}, because the folder {_shown(folder)} does not "
            "exist. Make it first, or give another path."
        )
    return file


def read_file(path: Any, caller: str, most: int | None) -> tuple[bytes, str]:
    """Read a file of at most so many bytes; None for no limit."""
    wanted = "Give the name of a file that gradwalk.save() wrote."
    file = _path(path, caller, "the name of a file that gradwalk.save() wrote")
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # reading may block for ever, or never end
            raise OSError(errno.EINVAL, "it is not a regular file")
        with file.open("rb") as stream:
            data = stream.read(-1 if most is None else most + 1)
    except OSError as error:
        raise type(error)(
            f"{_shown(file)} cannot be read: {error.strerror or error}. {wanted}"
        ) from error
    if most is not None and len(data) > most:
        raise ValueError(
            f"{_shown(file)} is not read, because it has more than {most // 2**20} MiB. {wanted}"
        )
    return data, _shown(file)[1:-1]


def _path(path: Any, caller: str, wanted: str) -> Path:
    """The user's argument as a path that the system accepts."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise TypeError(
            f"{caller}() was given {path!r}, of type {type(path).__name__}, as the path. Give "
            f"{wanted}."
        )
    is_possible = False
    with contextlib.suppress(UnicodeEncodeError):
        is_possible = "\0" not in os.fsdecode(os.fsencode(text))
    if not is_possible:
        raise ValueError(
            f"{caller}() was given {text!r}, which no file can be called. Give {wanted}."
        )
    file = Path(text)
    with contextlib.suppress(RuntimeError):  # nobody has that home folder
        file = file.expanduser()
    return file


def _mode(file: Path) -> int | None:
    """The kind and permissions of a file; None if it does not exist."""
    try:
        return file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refused(file: Path, caller: str, error: OSError, advice: str) -> OSError:
    why = error.strerror or error
    return type(error)(f"{caller}() cannot write {_shown(file)}: {why}. {advice}")


def _shown(path: str | Path) -> str:
    """A path in quotes, shortened in the middle."""
    text = str(path)
    if len(text) > _LONGEST_SHOWN:
        half = _LONGEST_SHOWN // 2
        text = f"{text[:half]}...{text[-half:]}"
    return repr(text)


def bundle(name: str) -> str:
    """Return the text of a file of the built front end, which travels with the package."""
    path = Path(__file__).parents[1] / "assets" / name
    if not path.exists():
        raise ImportError(
            f"gradwalk's browser bundle {path} is missing: this is a source checkout that has not "
            "been built. Run `make build` in its root, or `npm ci && npm run build` in js."
        )
    return path.read_text(encoding="utf-8")
