"""Selecting and playing keep the picture's scale, and a click hits the box it is on."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from lab import eventually, wait_until_at_rest
from playwright.sync_api import Browser, Locator, Page, expect
from torch import nn

from gradwalk import GraphWidget, watch


def small() -> GraphWidget:
    """Six nodes in a row."""
    w = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(1.0, requires_grad=True)
    with watch():
        return GraphWidget((w * torch.tensor(-3.0) + b - 1) ** 2, names={"w": w, "b": b})


def wide() -> GraphWidget:
    """A picture over the whole width, whose last boxes lie under an open panel."""
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(6))
    )
    with watch():
        return GraphWidget(net(torch.randn(2, 8)).square().mean(), names=net)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, made = tmp_path_factory.mktemp("pages"), {}
    for make in (small, wide):
        widget = make()
        widget.backward()
        made[make.__name__] = folder / f"{make.__name__}.html"
        widget.to_html(made[make.__name__])
        widget.close()
    return made


def opened(browser: Browser, file: Path, width: int, *, stops: bool = False) -> Page:
    """Open a file; ``stops``: whether the page's clock can be stopped."""
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    if stops:
        page.clock.install(time=0)
    page.goto(file.as_uri())
    expect(page.locator(".gw-node").first).to_be_visible()
    wait_until_at_rest(page)
    return page


def scale(page: Page) -> float:
    [found] = re.findall(
        r"scale\(([\d.e-]+)\)", str(page.locator(".gw-svg > g").first.get_attribute("transform"))
    )
    return float(found)


def edges(of: Locator) -> tuple[float, float, float, float]:
    box = of.bounding_box()
    assert box
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


def is_beside(one: Locator, other: Locator) -> bool:
    return edges(one)[2] <= edges(other)[0] + 1


def is_below(one: Locator, other: Locator) -> bool:
    return edges(one)[1] >= edges(other)[3]


def click(node: Locator) -> None:
    """Click a node in its box, whatever of the node is drawn there."""
    (left, top, right, _), (x, y, _, _) = edges(node.locator(".gw-box")), edges(node)
    node.click(position={"x": left + (right - left) / 3 - x, "y": top + 6 - y})


@pytest.mark.parametrize("width", [1400, 800])
@pytest.mark.parametrize("name", ["small", "wide"])
def test_selecting_and_playing_keep_the_scale(
    browser: Browser, files: dict[str, Path], name: str, width: int
) -> None:
    page = opened(browser, files[name], width)
    before = scale(page)
    panel, stage = page.locator(".gw-panel"), page.locator(".gw-stage")
    nodes = page.locator(".gw-svg .gw-node")
    for nth in sorted({0, 1, nodes.count() // 2, nodes.count() - 1}):
        for key in ("Escape", "Escape", "f"):
            page.locator(".gw-canvas").press(key)
        wait_until_at_rest(page)
        click(nodes.nth(nth))
        expect(panel).to_be_visible()
        if width == 1400:  # beside the panel, not under it
            eventually(partial(is_beside, nodes.nth(nth), panel))
        else:
            eventually(partial(is_below, panel, stage))
        wait_until_at_rest(page)
        assert scale(page) == before
        if name == "small" and width == 1400:  # all of it
            eventually(lambda: all(is_beside(one, panel) for one in nodes.all()))
    page.get_by_label("Close the details panel").click()
    page.get_by_label("Play", exact=True).click()
    expect(page.locator(".gw-bar-text")).to_contain_text(re.compile(r"step (?![12] )\d+ of|done"))
    page.get_by_label("One step back", exact=True).click()  # pauses, also where it has ended
    if width == 1400:
        eventually(partial(is_beside, page.locator(".gw-svg .gw-node.is-running"), panel))
    wait_until_at_rest(page)
    assert scale(page) == before
    page.context.close()


def test_a_low_picture_grows_while_the_panel_is_open_and_stays_where_it_is(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["small"], 1400)
    stage, node = page.locator(".gw-stage"), page.locator(".gw-svg .gw-node").first
    (_, top, _, bottom), (_, y, _, _) = edges(stage), edges(node)
    assert bottom - top < 420
    click(page.locator(".gw-svg .gw-node").nth(1))
    expect(page.locator(".gw-panel")).to_be_visible()
    wait_until_at_rest(page)
    assert edges(stage)[3] - edges(stage)[1] == pytest.approx(420)
    assert edges(node)[1] == pytest.approx(y)
    page.get_by_label("Close the details panel").click()
    wait_until_at_rest(page)
    assert edges(stage)[3] == pytest.approx(bottom)
    assert edges(node)[1] == pytest.approx(y)
    page.context.close()


def test_a_double_click_under_the_panel_hits_the_same_box(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["wide"], 1400, stops=True)
    boxes = page.locator(".gw-svg .gw-node[data-group], .gw-svg .gw-node.is-group")
    last = max(
        (box for box in (one.bounding_box() for one in boxes.all()) if box),
        key=lambda box: box["x"],
    )
    drawn = page.locator(".gw-svg .gw-node").count()
    page.clock.pause_at(3_600_000)  # however slow the machine is, both clicks come in time
    page.mouse.dblclick(last["x"] + last["width"] / 2, last["y"] + 8, delay=60)
    page.clock.resume()
    eventually(lambda: page.locator(".gw-svg .gw-node").count() > drawn)
    page.context.close()


def test_a_click_on_any_part_of_a_card_selects_its_node(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["small"], 1400)
    page.get_by_label("One step back", exact=True).click()  # also a gradient that only arrived
    for card in page.locator(".gw-svg .gw-card").all():
        sign = card.locator(".gw-card-sign")
        for across, down in ((0.06, 0.1), (0.4, 0.5), (0.9, 0.8), (0.75, 0.4)):
            selects(page, card, card.locator(".gw-box"), across, down)
        for across in (0.15, 0.5, 0.85) if sign.count() else ():
            selects(page, card, sign, across, 0.5)
    page.context.close()


def selects(page: Page, card: Locator, part: Locator, across: float, down: float) -> None:
    """Click a place in a part of a card, and wait until the card is selected."""
    page.locator(".gw-canvas").press("Escape")
    expect(card).not_to_have_class(re.compile("is-selected"))
    wait_until_at_rest(page)
    left, top, right, bottom = edges(part)
    page.mouse.click(left + across * (right - left), top + down * (bottom - top))
    expect(card).to_have_class(re.compile("is-selected"))
