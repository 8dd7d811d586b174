"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import warnings
from pathlib import Path
from typing import Any


def write_file(path: Any, content: str | bytes, caller: str, between: int = 1) -> Path:
    """Write a file so that a failure midway leaves what was there before.

    Args:
        path: Where to; ``~`` is the home folder.
        content: Text, which is written as UTF-8, or bytes.
        caller: Who writes, for errors: "to_svg".
        between: How many functions of ours stand between the user and this one, so that a warning
            points at the user's line.

    Returns:
        Where it was written. An existing file is replaced, with a warning that says so.

    Raises:
        TypeError: ``path`` is no path.
        OSError: The folder does not exist, or the file cannot be written there.
    """
    file = read_path(path, caller)
    existed = file.exists()
    data = content.encode("utf-8") if isinstance(content, str) else content
    # Its name is known before it is there: whenever an interrupt comes, it can be taken away.
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb", opener=_private) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(file))
        temporary.replace(file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise _refused(file, caller, error) from error
        raise
    if existed:
        warnings.warn(f"{caller}() has replaced the file {file}.", stacklevel=2 + between)
    return file


def read_path(path: Any, caller: str) -> Path:
    """A path to a file in a folder that is there, checked.

    Raises:
        TypeError: ``path`` is no path.
        OSError: There is no such folder, or the path is that of a folder.
    """
    try:
        file = Path(path).expanduser()
    except TypeError:
        raise TypeError(
            f"{caller}() was given {path!r}, of type {type(path).__name__}, as the path. Give the "
            "name of a file, such as 'graph.svg'."
        ) from None
    if file.is_dir():
        raise IsADirectoryError(
            f"{caller}() was given {str(file)!r}, which is a folder. Give the name of a file in it."
        )
    if not file.parent.is_dir():
        raise FileNotFoundError(
            f"{caller}() cannot write {str(file)!r}, because there is no folder "
            f"{str(file.parent)!r}. Make it first, or give another path."
        )
    return file


def _private(path: str, flags: int) -> int:
    """Opens a file that nobody else may read, until it has the permissions it should have."""
    return os.open(path, flags, 0o600)


def _refused(file: Path, caller: str, error: OSError) -> OSError:
    return type(error)(
        f"{caller}() cannot write {str(file)!r}: {error.strerror or error}. What was there before "
        "is unchanged. Give a path that you may write to, with enough room."
    )


def _mode(file: Path) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    if file.exists():
        return file.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
