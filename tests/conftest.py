"""What every test begins with."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from gradwalk import compare

# Without the training libraries, their tests are left out: `make test-integrations` installs them.
collect_ignore = [] if find_spec("peft") and find_spec("lightning") else ["integrations"]


HERE = Path(__file__).parent

# Tests import the helpers in `support`, and each other.
sys.path += [str(HERE / "support"), *sorted({str(file.parent) for file in HERE.rglob("test_*.py")})]
BROWSER_TESTS = HERE / "e2e"

# The same examples in every run: a change fails what it breaks, and nothing else does.
settings.register_profile("same", derandomize=True, database=None)
settings.load_profile("same")

# Modules of tests stay: to look for garbage among them takes a fifth of the time of collection.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests `slow` that tools/slow_tests.py has listed."""
    slow = set((HERE / "slow.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in slow:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test has random numbers of its own, whichever tests the process has run before."""
    torch.default_generator.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def no_loop_of_a_browser(request: pytest.FixtureRequest) -> Iterator[None]:
    """The thread of the tests runs no event loop, as in a program of its own.

    Playwright's driver leaves its loop marked as running between the calls of browser tests, and a
    worker runs those and others in turn.
    """
    if BROWSER_TESTS in request.path.parents:
        yield
        return
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


@pytest.fixture(autouse=True, scope="module")
def little_to_look_through() -> None:
    """The collector leaves alone what is there before a file of tests begins.

    That is torch, and all the tests: half a second, each time that a test has garbage collected.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def compiles_anew() -> Iterator[None]:
    """Nothing that torch has compiled before is there, and nothing of the test stays."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def comparing():
    """`compare`, which closes what it made when the test is over."""
    with ExitStack() as stack:
        yield lambda *graphs, **asked: stack.enter_context(closing(compare(*graphs, **asked)))


@pytest.fixture
def as_rank(monkeypatch):
    """Says that this process is a rank; called with it and the number of ranks."""
    for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)

    def become(rank, world=2):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)

    return become
