"""A model of 10,000 nodes in JupyterLab: drawn on a canvas from afar, as elements near."""

from __future__ import annotations

import io
import math

import pytest
from lab import Lab, Watched, open_notebook, open_view_tools, run_cell, set_theme, until
from PIL import Image, ImageChops, ImageStat
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.full

_NOTCH = 120  # px that a mouse tells for one notch of its wheel

LARGE = """\
import torch
from torch import nn
from gradwalk import GraphWidget
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
model = nn.TransformerEncoder(layer, 140)
loss = model(torch.randn(2, 3, 8)).mean()
g = GraphWidget(loss, names=model, direction="down")
g"""
COUNT = """\
ops = dict(g.to_networkx().nodes(data="op"))
print(len(ops), sum("Relu" in op for op in ops.values()))"""
SELECTED = "print(g.selected, ops.get(g.selected))"


@pytest.fixture
def page(watched: Watched, lab: Lab) -> Page:
    """All modules open, with all plumbing shown, as a whole."""
    open_notebook(lab, watched.page, lab.write("large.ipynb", LARGE, COUNT, SELECTED))
    page = watched.page
    page.set_viewport_size({"width": 1280, "height": 1100})
    run_cell(page, 0)
    expect(page.locator(".gw-svg .gw-node").first).to_be_visible()
    open_view_tools(page)
    page.locator(".gw-depth").select_option("all")
    _settle(page)
    page.get_by_label("Hide views and transposes").click()
    _settle(page)
    _fit(page)
    return page


def test_ten_thousand_nodes(page: Page) -> None:
    """One page for all of it: a graph this large takes a while to open."""
    nodes, relus = (int(number) for number in _printed(page, 1).split())
    assert nodes > 10_000
    elements = page.locator(".gw-svg .gw-node").count()
    assert elements < 20, "the canvas draws what is seen; elements are what stands out"

    _click_selects(page)
    _search_finds(page, relus)
    _minimap_moves(page)
    _painters_agree(page)
    _stays_responsive(page)
    set_theme(page, "JupyterLab Dark")
    _fit(page)
    _painters_agree(page)
    shade = ImageStat.Stat(_picture(page).convert("L")).mean[0]
    assert shade < 60, "painted in the colours of the dark theme"


def _click_selects(page: Page) -> None:
    """A click where a node is painted, which has no element, selects that node."""
    canvas = page.locator(".gw-canvas")
    _zoom_to(page, 0.25, 0.5, 0.5)
    expect(canvas).to_have_attribute("data-painter", "canvas")
    canvas.focus()
    page.keyboard.press("Home")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    focused = page.locator(".gw-node.is-focused")
    _settle(page)
    number = focused.get_attribute("data-node")
    where = focused.locator(".gw-box").bounding_box()
    assert where is not None
    before = _place_of_layer(page)
    page.keyboard.press("ArrowUp")
    expect(focused).not_to_have_attribute("data-node", number or "")
    page.wait_for_timeout(500)
    assert canvas.get_attribute("data-painter") == "canvas"
    after = _place_of_layer(page)  # the view may have followed the keyboard
    x = where["x"] + where["width"] / 2 + after[0] - before[0]
    y = where["y"] + where["height"] / 2 + after[1] - before[1]
    page.mouse.click(x, y)
    expect(page.locator(".gw-node.is-selected")).to_have_attribute("data-node", number or "")
    op = page.locator(".gw-title").inner_text()
    assert _printed(page, 2) == f"{number} {op}"


def _place_of_layer(page: Page) -> tuple[float, float]:
    """Where the drawing's origin is on the stage, px."""
    transform = page.locator(".gw-layer").first.get_attribute("transform") or ""
    x, y = transform.removeprefix("translate(").partition(")")[0].split(",")
    return float(x), float(y)


def _search_finds(page: Page, relus: int) -> None:
    """Enter jumps from hit to hit: each comes into view, near enough to be read."""
    field = page.locator(".gw-search-field")
    field.fill("Relu")
    expect(page.locator(".gw-search-count")).to_contain_text(str(relus))
    for _ in range(3):
        field.press("Enter")
        _settle(page)
        hit = page.locator(".gw-node.is-current-hit").first
        expect(hit).to_contain_text("relu")
        box, stage = hit.bounding_box(), _stage(page)
        assert box is not None
        assert stage["x"] <= box["x"]
        assert box["x"] + box["width"] <= stage["x"] + stage["width"]
        assert box["width"] > 40
    field.press("Escape")
    _settle(page)


def _minimap_moves(page: Page) -> None:
    """Its window lies where the view does; dragged, it takes the view along."""
    minimap, window = page.locator(".gw-minimap"), page.locator(".gw-minimap-window")
    expect(minimap).to_be_visible()
    before, map_box = _place(page), _box(minimap)
    start = _middle(_box(window))
    page.mouse.move(*start)
    page.mouse.down()
    goal = (map_box["x"] + map_box["width"] * 0.3, map_box["y"] + map_box["height"] * 0.7)
    page.mouse.move(*goal, steps=6)
    page.mouse.up()
    _settle(page)
    assert _place(page)[0] == before[0]
    assert _place(page) != before
    middle = _middle(_box(window))
    assert math.dist(middle, goal) < 3
    _fit(page)
    expect(minimap).to_be_hidden()


def _painters_agree(page: Page) -> None:
    """The same view by both painters, which hand over later than they take over: no jump."""
    canvas = page.locator(".gw-canvas")
    _zoom_to(page, 0.402, 0.5, 0.5)
    expect(canvas).to_have_attribute("data-painter", "canvas")
    painted = _picture(page)
    place = _place(page)
    _wheel(page, -420)
    expect(canvas).to_have_attribute("data-painter", "svg")
    _wheel(page, 420)
    expect(canvas).to_have_attribute("data-painter", "svg")
    assert [round(value, 3) for value in _place(page)] == [round(value, 3) for value in place]
    drawn = _picture(page)
    difference = ImageChops.difference(painted, drawn).convert("L").histogram()
    size = sum(difference)
    mean = sum(value * count for value, count in enumerate(difference)) / size
    assert len(drawn.getcolors(1 << 20) or []) > 40, "there is something to compare"
    assert mean < 0.4
    assert sum(difference[64:]) / size < 0.004, (
        "letters may be hinted otherwise, lines may not move"
    )
    _fit(page)


def _stays_responsive(page: Page) -> None:
    """Zooms in and out; how long the page was blocked is printed: it depends on the machine."""
    page.evaluate("""() => {
      window.blocked = [];
      new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) window.blocked.push(Math.round(duration));
      }).observe({ entryTypes: ['longtask'] });
    }""")
    for _ in range(24):
        _wheel(page, -60, rest=20)
    for _ in range(24):
        _wheel(page, 60, rest=20)
    _settle(page)
    print(f"Tasks over 50 ms while zooming: {page.evaluate('window.blocked')} ms")


def _printed(page: Page, cell: int) -> str:
    run_cell(page, cell)
    output = page.locator(".jp-Notebook-cell").nth(cell).locator(".jp-OutputArea")
    text = output.inner_text().strip()
    page.locator(".gw-stage").scroll_into_view_if_needed()
    page.wait_for_timeout(200)
    return text


def _settle(page: Page) -> None:
    """Waits until nothing is laid out or moves any more; work is announced after half a second."""
    until(
        page,
        """async () => {
          const busy = () => document.querySelector('.gw-progress:not([hidden]):not(.is-offer)');
          const view = () => document.querySelector('.gw-layer').getAttribute('transform');
          const before = view();
          for (let i = 0; i < 3; i++) {
            await new Promise((done) => setTimeout(done, 300));
            if (busy() || view() !== before) return false;
          }
          return true;
        }""",
    )


def _fit(page: Page) -> None:
    """Shows everything, once all of it is laid out."""
    canvas = page.locator(".gw-canvas")
    for _ in range(10):
        page.get_by_label("Fit the graph").click()
        _settle(page)
        if canvas.get_attribute("data-painter") == "canvas":
            break
    expect(canvas).to_have_attribute("data-painter", "canvas")


def _place(page: Page) -> list[float]:
    """Scale, x and y of the view."""
    transform = page.locator(".gw-layer").get_attribute("transform") or ""
    x, y, scale = (float(part) for part in _numbers(transform))
    return [scale, x, y]


def _numbers(transform: str) -> list[str]:
    return transform.replace("translate(", "").replace(") scale(", ",").rstrip(")").split(",")


def _box(part: Locator) -> dict[str, float]:
    box = part.bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def _middle(box: dict[str, float]) -> tuple[float, float]:
    return (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def _stage(page: Page) -> dict[str, float]:
    return _box(page.locator(".gw-stage"))


def _picture(page: Page) -> Image.Image:
    page.mouse.move(3, 3)
    page.wait_for_timeout(600)
    # The minimap and the ring of the keyboard are the same in both, but for their shadows.
    return Image.open(io.BytesIO(page.screenshot(clip=_stage(page)))).convert("RGB")  # type: ignore[arg-type]


def _zoom_to(page: Page, scale: float, across: float, down: float) -> None:
    """Turns the wheel over a point of the stage, given as shares of it, to reach a scale."""
    _wheel(page, 500 * math.log2(_place(page)[0] / scale), across, down)


def _wheel(
    page: Page, by: float, across: float = 0.5, down: float = 0.5, rest: float = 700
) -> None:
    stage = _stage(page)
    page.mouse.move(stage["x"] + stage["width"] * across, stage["y"] + stage["height"] * down)
    page.keyboard.down("Meta")  # without it the page scrolls; with Control a notch is a pinch
    # One notch at a time: what a single event asks for beyond that is not followed.
    notches = math.ceil(abs(by) / _NOTCH)
    for _ in range(notches):
        page.mouse.wheel(0, by / notches)
    page.keyboard.up("Meta")
    page.wait_for_timeout(rest)
