from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import Lab, Watched, running_browser, running_lab
from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder: Path = tmp_path_factory.mktemp("notebooks")
    with running_lab(folder) as running:
        yield running


@pytest.fixture(scope="module")
def fresh_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server that no other test has left a theme or open tabs on."""
    with running_lab(tmp_path_factory.mktemp("fresh-notebooks")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture
def watched(browser: Browser, lab: Lab) -> Iterator[Watched]:
    """A fresh page; the test fails when anything went wrong on it, or left this machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    watched = Watched(context.new_page())
    try:
        yield watched
    finally:
        context.close()
        lab.stop_kernels()
    assert watched.errors == []
