"""The tools that lay graphs out, each in a process of its own and within a limit of time."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from layout_graphs import Given
from torchviz import make_dot

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
WORKER = CACHE / "worker.mjs"


class GivenUp(Exception):  # noqa: N818 - it is an outcome that tables report
    """A tool did not finish; the message says why, in a word or two."""


@dataclass(frozen=True)
class Judged:
    """The quality of a picture, by `js/testing/drawn.ts`. Lengths are pixels, nodes are boxes."""

    nodes: int
    crossings: int
    width: float
    height: float
    length: float
    through: int


class Tool(Protocol):
    """A way to lay a graph out."""

    name: str

    def load(self, given: Given, path: Path) -> None:
        """Read a graph."""

    def lay(self, fill: float) -> float:
        """CPU milliseconds of one layout, averaged over as many as fill so many milliseconds."""

    def judge(self) -> Judged | None:
        """Return the quality of the last layout; None for one that draws something else."""

    def close(self) -> None:
        """End its processes."""


class Worker:
    """A Node process that answers requests; a new one starts when the last has died."""

    def __init__(self, tool: str, limit: float) -> None:
        self.tool, self.limit = tool, limit
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, limit: float | None = None, **request: Any) -> dict[str, Any]:
        """The answer to a request.

        Args:
            limit: Seconds until the worker is given up; by default its own limit.
            **request: What `layout/worker.ts` understands.

        Raises:
            GivenUp: No answer came in time, or the worker died, or it says why there is none.
        """
        limit = limit or self.limit
        if self.process is None:
            command = ["node", "--max-old-space-size=8000", str(WORKER), self.tool]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request).encode() + b"\n")
        stdin.flush()
        text, end = b"", time.monotonic() + limit
        while not text.endswith(b"\n"):
            if not select.select([stdout], [], [], max(0, end - time.monotonic()))[0]:
                self.close()
                raise GivenUp(f"over {limit:.0f} s")
            part = os.read(stdout.fileno(), 1 << 20)
            if not part:
                self.close()
                raise GivenUp("crashed")
            text += part
        answer: dict[str, Any] = json.loads(text)
        if "fault" in answer:
            stack = "Maximum call stack" in answer["fault"]
            raise GivenUp("stack overflow" if stack else f"error: {answer['fault'][:60]}")
        return answer

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


class InNode:
    """A tool of `layout/tools.ts`."""

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        self.worker = Worker(name, limit)

    def load(self, given: Given, path: Path) -> None:  # noqa: ARG002
        """Read a graph."""
        self.worker.ask(do="load", path=str(path))

    def lay(self, fill: float) -> float:
        """CPU milliseconds of one layout."""
        return float(self.worker.ask(do="lay", fill=fill)["ms"])

    def judge(self) -> Judged:
        """Return the quality of the last layout."""
        return Judged(**self.worker.ask(limit=300, do="judge"))

    def close(self) -> None:
        """End its process."""
        self.worker.close()


class Dot:
    """Graphviz's `dot` on the same graph, a process per layout."""

    name = "dot"

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.reader = Worker("", limit=300)
        self.source, self.result = CACHE / "graph.dot", CACHE / "graph.dot.json"

    def load(self, given: Given, path: Path) -> None:  # noqa: ARG002
        """Read a graph."""
        self.reader.ask(do="load", path=str(path), dot=str(self.source))

    def lay(self, fill: float) -> float:  # noqa: ARG002 - a process at a time
        """CPU milliseconds of one layout."""
        return dot_ms(self.source, self.result, self.limit)

    def judge(self) -> Judged:
        """Return the quality of the last layout."""
        return Judged(**self.reader.ask(do="judge", dot=str(self.result)))

    def close(self) -> None:
        """End its process."""
        self.reader.close()


class Torchviz:
    """torchviz's `make_dot` and then `dot`: what it takes to see a graph with torchviz.

    Its picture has words of its own and one node for a leaf that many use, so it is only timed.
    """

    name = "torchviz + dot"

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.source, self.result = CACHE / "torchviz.dot", CACHE / "torchviz.json"
        self.given: Given | None = None

    def load(self, given: Given, path: Path) -> None:  # noqa: ARG002
        """Read a graph."""
        if not given.is_real:
            raise GivenUp("no program")
        self.given = given

    def lay(self, fill: float) -> float:  # noqa: ARG002
        """CPU milliseconds of one layout."""
        assert self.given is not None
        loss = self.given.loss()
        start = time.process_time()
        try:
            source = make_dot(loss).source
        except RecursionError:
            raise GivenUp("RecursionError") from None
        ms = (time.process_time() - start) * 1e3
        self.source.write_text(source)
        return ms + dot_ms(self.source, self.result, self.limit)

    def judge(self) -> None:
        """Nothing: its picture is of another graph."""

    def close(self) -> None:
        """Nothing is left running."""


def dot_ms(source: Path, result: Path, limit: float) -> float:
    """CPU milliseconds that `dot` takes for a file, its start included.

    Raises:
        GivenUp: It took longer than `limit` seconds, or failed.
    """
    process = subprocess.Popen(
        ["dot", "-Tjson0", str(source), "-o", str(result)], stderr=subprocess.DEVNULL
    )
    killer = threading.Timer(limit, process.kill)
    killer.start()
    _, status, usage = os.wait4(process.pid, 0)
    is_late = not killer.is_alive()
    killer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise GivenUp(f"over {limit:.0f} s" if is_late else "crashed")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def dot_version() -> str:
    """The version of Graphviz, "2.43.0"."""
    said = subprocess.run(["dot", "-V"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"version (\S+)", said)
    return found[1] if found else said


def peer_version(package: str) -> str:
    """The version of an npm package that is measured."""
    text = (HERE / "node_modules" / package / "package.json").read_text()
    return str(json.loads(text)["version"])
