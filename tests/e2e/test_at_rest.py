"""A picture at rest has few texts, marks, controls and tab stops, and hides nothing from keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lab import wait_until_at_rest
from playwright.sync_api import Browser, Page, expect

from gradwalk import GraphWidget, watch

COUNTS = """() => {
  const root = document.querySelector(".gradwalk");
  const isSeen = (one) => {
    if (!one.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    const { width, height } = one.getBoundingClientRect();
    return width > 0 && height > 0;
  };
  const all = [...root.querySelectorAll("*")];
  const hasText = (one) =>
    [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const isApart = (one) => one.closest(".gw-callout, .gw-visually-hidden, title, [role=status]");
  const outer = (one) => one.closest(".gw-bar-text") ?? one;
  const written = all.filter((one) => hasText(one) && isSeen(one) && !isApart(one));
  const texts = new Set(written.map(outer));
  const controls = all.filter((one) => one.matches("button, select, input") && isSeen(one));
  const shapes = all.filter(
    (one) => one.matches(".gw-svg :is(path, rect, circle)") && isSeen(one));
  const marks = new Set(shapes.map((one) => {
    const { fill, stroke, strokeDasharray } = getComputedStyle(one);
    return [fill, stroke, strokeDasharray === "none" ? "" : "dashed"].join();
  }));
  return { texts: texts.size, controls: controls.length, marks: marks.size };
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The picture of the README."""
    w = torch.tensor(-3.0, requires_grad=True)
    b = torch.tensor(1.0, requires_grad=True)
    x, y = torch.tensor(2.0), torch.tensor(1.0)
    with watch():
        pred = w * x + b
        loss = (pred - y) ** 2
        widget = GraphWidget(loss)
    loss.backward()  # type: ignore[no-untyped-call]
    found = tmp_path_factory.mktemp("pages") / "neuron.html"
    widget.to_html(found)
    widget.close()
    return found


def opened(browser: Browser, file: Path, width: int) -> Page:
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    page.goto(file.as_uri())
    expect(page.locator(".gw-node").first).to_be_visible()
    wait_until_at_rest(page)
    return page


@pytest.mark.parametrize("width", [1400, 800])
def test_a_small_picture_is_calm(browser: Browser, file: Path, width: int) -> None:
    page = opened(browser, file, width)
    page.mouse.move(0, 0)
    found = page.evaluate(COUNTS)
    assert found["texts"] <= 30
    assert found["marks"] <= 10
    assert found["controls"] <= 6
    page.locator(".gw-canvas").hover()
    assert page.evaluate(COUNTS)["controls"] > 12


def test_the_tab_key_stops_six_times(browser: Browser, file: Path) -> None:
    page = opened(browser, file, 1400)
    page.evaluate("document.body.tabIndex = -1, document.body.focus()")
    stops = []
    for _ in range(9):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "document.activeElement.closest('.gradwalk') && "
            "(document.activeElement.ariaLabel || document.activeElement.className)"
        )
        if name is None:
            break
        stops.append(name)
    assert 4 <= len(stops) <= 6, stops


def test_arrows_reach_every_tool(browser: Browser, file: Path) -> None:
    page = opened(browser, file, 1400)
    tools = page.locator(".gw-toolbar :is(button, input):visible:not(.gw-menu-list *)")
    page.keyboard.press("Tab")
    reached = set()
    for _ in range(tools.count()):
        reached.add(page.evaluate("document.activeElement.ariaLabel"))
        page.keyboard.press("ArrowRight")
    assert {"More tools", "Full screen", "Legend and keys", "Zoom in", "View"} <= reached
