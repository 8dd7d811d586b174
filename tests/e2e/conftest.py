from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab import (
    PATIENCE_MS,
    VIEWPORT,
    Lab,
    Watched,
    clear_notebook,
    running_browser,
    running_lab,
    take_picture,
)
from playwright.sync_api import Browser, expect

FAILED = pytest.StashKey[bool]()
BROWSER_TESTS = Path(__file__).parent

expect.set_options(timeout=PATIENCE_MS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test leaves pictures of its pages in test-results."""
    report = yield
    browser = getattr(item, "funcargs", {}).get("browser")
    if report.failed:
        item.stash[FAILED] = True
        pages = [page for context in browser.contexts for page in context.pages] if browser else []
        for file in filter(None, map(take_picture, pages)):
            report.sections.append(("picture of the page", str(file)))
    return report


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("notebooks")) as running:
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


def open_page(browser: Browser) -> Watched:
    return Watched(browser.new_context(viewport=VIEWPORT).new_page())


@dataclass
class Desk:
    """The page, with a notebook and its kernel, that the tests of one worker use in turn.

    Torch is imported once and JupyterLab loaded once, which takes longer than most tests do.

    Attributes:
        browser: Where the page is opened.
        lab: What the page shows, and where its kernel runs.
        watched: The page; None before the first test, and after one that failed.
    """

    browser: Browser
    lab: Lab
    watched: Watched | None = None

    def open(self) -> Watched:
        if self.watched is None:
            self.watched = open_page(self.browser)
        self.watched.errors.clear()
        self.watched.page.set_viewport_size(VIEWPORT)
        return self.watched

    def clear(self) -> None:
        if self.watched is not None and self.watched.page.url != "about:blank":
            clear_notebook(self.watched.page)

    def close(self) -> None:
        if self.watched is not None:
            self.watched.page.context.close()
            self.lab.stop_kernels()
        self.watched = None


DESK = pytest.StashKey[Desk]()


@pytest.fixture(scope="session")
def desk(request: pytest.FixtureRequest, browser: Browser, lab: Lab) -> Iterator[Desk]:
    desk = request.session.stash[DESK] = Desk(browser, lab)
    yield desk
    desk.close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A worker that goes on to other tests keeps no page and no kernel."""
    desk = item.session.stash.get(DESK, None)
    if desk and (nextitem is None or BROWSER_TESTS not in nextitem.path.parents):
        desk.close()


@pytest.fixture
def watched(
    request: pytest.FixtureRequest, browser: Browser, lab: Lab, desk: Desk
) -> Iterator[Watched]:
    """A page; the test fails when anything went wrong on it, or left this machine.

    The tests of a worker share the page and the kernel, both emptied in between. A test marked
    `fresh` has its own, and so has the test after one that failed.
    """
    if request.node.get_closest_marker("fresh"):
        before = lab.sessions()
        watched = open_page(browser)
        try:
            yield watched
        finally:
            watched.page.context.close()
            lab.stop_kernels(keep=before)
        assert watched.errors == []
        return
    watched = desk.open()
    yield watched
    wrong = list(watched.errors)
    if wrong or request.node.stash.get(FAILED, False):
        desk.close()
    else:
        desk.clear()
    assert wrong == []
