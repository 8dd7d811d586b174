"""Watched cells of a real kernel: interrupts, subshells, and tasks between cells."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

PATIENCE = 120
START = """\
%load_ext gradwalk
import asyncio, signal, threading, torch
from gradwalk import capture
w = torch.ones(1, requires_grad=True)
def modes():
    return len(torch.overrides._get_current_function_mode_stack())
modes()"""


class Kernel:
    """A kernel, which runs one cell after another."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel()
        self.shown: dict[str, str] = {}
        self.ended: set[str] = set()

    def send(self, code: str, subshell: str | None = None) -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = self.client.session.msg("execute_request", content)
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def result(self, sent: str) -> str:
        """What a cell has shown, when it has ended."""
        while sent not in self.ended:
            message = self.client.get_iopub_msg(timeout=PATIENCE)
            content: dict[str, Any] = message["content"]
            cell = message["parent_header"].get("msg_id")
            shown = [content.get("text", ""), *content.get("traceback", [])]
            shown.append(content.get("data", {}).get("text/plain", ""))
            self.shown[cell] = self.shown.get(cell, "") + "".join(shown)
            if content.get("execution_state") == "idle":
                self.ended.add(cell)
        return re.sub(r"\x1b\[[\d;]*m", "", self.shown[sent])

    def run(self, code: str, subshell: str | None = None) -> str:
        return self.result(self.send(code, subshell))


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    assert made.run(START).endswith("1")
    yield made
    made.client.stop_channels()
    made.manager.shutdown_kernel(now=True)


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
]


LATER = "asyncio.get_running_loop().call_later(0.1, signal.raise_signal, signal.SIGINT)"
SOON = "threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (f"{SOON}\nwhile True: y = w * 2", "KeyboardInterrupt"),
        (f"{LATER}\nawait asyncio.sleep(600)", "CancelledError"),
    ],
    ids=["sync", "async"],
)
def test_an_interrupted_cell_ends_its_watch(kernel, code, error):
    shown = kernel.run(code)
    assert error in shown
    assert "gradwalk" not in shown
    assert kernel.run("%unload_ext gradwalk\nmodes()") == "0"
    assert kernel.run("modes()") == "0"
    assert kernel.run("%load_ext gradwalk\nmodes()") == "1"


def test_a_task_between_cells_is_not_watched(kernel):
    kernel.run("async def later():\n  await asyncio.sleep(0.05)\n  seen = modes()\n  return seen")
    kernel.run("task = asyncio.create_task(later())")
    time.sleep(0.5)
    assert kernel.run("task.result() if task.done() else 0") == "0"


def test_a_cell_of_a_subshell_is_watched(kernel):
    kernel.client.control_channel.send(kernel.client.session.msg("create_subshell_request"))
    subshell = kernel.client.get_control_msg(timeout=PATIENCE)["content"]["subshell_id"]
    sent = kernel.send(
        "import time\nwhile 'inner' not in globals(): time.sleep(0.01)\nouter = modes()"
    )
    kernel.run("z = w * 5\ninner = modes()", subshell)
    kernel.result(sent)
    assert kernel.run("inner, outer") == "(1, 1)"
    found = kernel.run("[each['source'] for _, each in capture(z).nodes(data=True)][0]")
    assert found.endswith(":1'")


def test_one_cell_that_awaits_is_watched_by_the_magic(kernel):
    kernel.run("%unload_ext gradwalk")
    assert kernel.run("%%watch\nawait asyncio.sleep(0)\nmodes()") == "1"
    assert kernel.run("modes()") == "0"
    kernel.run("%load_ext gradwalk")
