"""Running lines in a process of their own: what may kill it, or depends on a first use."""

from __future__ import annotations

import atexit
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import NamedTuple

START = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import torch
import torch.nn.functional as F
import gradwalk
from gradwalk import GraphWidget, capture, diagnose, record, save, watch
"""

# Importing torch takes longer than most of what is run so: a process that has done that and nothing
# else makes the others, each of which goes on as if it had begun by itself. What is imported is
# shared memory until it is written to, which the collector does, also at a process's end: it is
# told to leave that alone.
_SERVE = """
import gc as _gc, json as _json, os as _os, sys as _sys
_gc.collect()
_gc.freeze()
_code = None
for _line in _sys.stdin:
    _code, _file = _json.loads(_line)
    _child = _os.fork()
    if not _child:
        for _end, _to in ((0, _os.devnull), (1, _file + ".out"), (2, _file + ".err")):
            _os.dup2(_os.open(_to, _os.O_RDWR | _os.O_CREAT), _end)
        break
    _code = None
    print(_os.waitstatus_to_exitcode(_os.waitpid(_child, 0)[1]), flush=True)
if _code is not None:
    exec(compile(_code, "<string>", "exec"))
"""

_TIMEOUT = 300


class Done(NamedTuple):
    """What came of a process: its exit status, below 0 a signal, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class _Maker:
    """A process that has run the first lines of others, and makes them."""

    def __init__(self, start: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", start + _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
            start_new_session=True,
        )
        self.pid = os.getpid()
        atexit.register(self.end)

    def run(self, code: str) -> Done:
        """What comes of some code."""
        given, told = self._process.stdin, self._process.stdout
        assert given is not None
        assert told is not None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "wrote"
            given.write(f"{json.dumps([code, str(file)])}\n")
            given.flush()
            with selectors.DefaultSelector() as answer:
                answer.register(told, selectors.EVENT_READ)
                if not answer.select(_TIMEOUT):
                    _maker.cache_clear()
                    self.end()
            status = told.readline()
            wrote = [file.with_suffix(end) for end in (".out", ".err")]
            texts = [each.read_text() if each.exists() else "" for each in wrote]
        assert status, f"It did not end within {_TIMEOUT} s.\n{texts[0]}\n{texts[1]}"
        return Done(int(status), *texts)

    def end(self) -> None:
        """End the process, and what it has made."""
        atexit.unregister(self.end)
        if self.pid == os.getpid():  # not where pytest itself was forked
            os.killpg(self._process.pid, signal.SIGKILL)
            with self._process:
                pass


@functools.cache
def _maker(start: str) -> _Maker:
    return _Maker(start)


def run(code: str, start: str = START) -> Done:
    """What comes of some code that runs after other lines, in a process that did nothing else."""
    return _maker(start).run(textwrap.dedent(code))


def fresh(code: str, start: str = START) -> str:
    """What some code prints; fails when it raises, or when the process ends by a signal."""
    done = run(code, start)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
