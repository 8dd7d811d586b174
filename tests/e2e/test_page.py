"""The page that `to_html` writes, in Chromium with the network blocked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from lab import wait_until_at_rest
from playwright.sync_api import Browser, Page, expect
from torch import nn
from torch.nn import functional as F

from gradwalk import GraphWidget

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def widget() -> Iterator[GraphWidget]:
    x = torch.tensor(3.0, requires_grad=True)
    made = GraphWidget((x + 1 - 2 * x) ** 2, names={"<b>x</b></script>": x})
    made.backward()
    made.reset()
    yield made
    made.close()


@pytest.fixture(params=["light"])
def page(
    request: pytest.FixtureRequest, browser: Browser, widget: GraphWidget, tmp_path: Path
) -> Iterator[Page]:
    file = tmp_path / "graph.html"
    widget.to_html(file)
    context = browser.new_context(offline=True, color_scheme=request.param)
    opened, wrong = context.new_page(), []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("request", lambda r: r.url.startswith(("file:", "data:")) or wrong.append(r.url))
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert wrong == []


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_it_draws_selects_and_steps(page: Page, widget: GraphWidget) -> None:
    nodes = page.locator(".gw-node")
    expect(nodes.first).to_be_visible()
    drawn = page.locator("[data-kind=op], [data-kind=leaf]")
    expect(drawn).to_have_count(widget.to_networkx().number_of_nodes())
    page.locator("[data-node='0']").click()
    expect(page.locator(".gw-title")).to_have_text("PowBackward0")
    page.locator("[data-kind=leaf]").click()
    expect(page.locator(".gw-title")).to_have_text("<b>x</b></script>")
    expect(page.locator(".gw-state")).to_contain_text("waiting")
    for _ in widget.steps:
        page.get_by_label("One step", exact=True).click()
    expect(page.locator(".gw-state")).to_contain_text("step 5 of 5")
    expect(page.locator(".gw-panel")).to_contain_text(".grad 4")  # x.grad, which torch says is 4


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.conv1(images).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        out: torch.Tensor = self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())
        return out


def test_a_selected_node_in_a_closed_box_is_shown_with_the_whole_picture(
    browser: Browser, tmp_path: Path
) -> None:
    net, labels = LeNet(), torch.zeros(4, dtype=torch.int64)
    loss = F.cross_entropy(net(torch.randn(4, 1, 28, 28)), labels)
    made = GraphWidget(loss, names={"net": net, "loss": loss, "labels": labels})
    named = {node["name"]: node["id"] for node in made.model["nodes"]}
    made.selected = named["net.fc2.weight"]
    made.backward()
    made.to_html(tmp_path / "graph.html")
    made.close()
    opened = browser.new_page(viewport={"width": 888, "height": 900})
    opened.goto((tmp_path / "graph.html").as_uri())
    expect(opened.locator(f".gw-node[data-node='{named['net.fc2.weight']}']")).to_be_visible()
    wait_until_at_rest(opened)
    stage = opened.locator(".gw-svg").bounding_box()
    boxes = [each.bounding_box() for each in opened.locator(".gw-svg .gw-node").all()]
    assert stage is not None
    assert len(boxes) > 5
    for box in boxes:
        assert box is not None
        assert box["x"] >= stage["x"]
        assert box["x"] + box["width"] <= stage["x"] + stage["width"]
    opened.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_in_a_frame_follows_the_theme_of_the_page_around_it(
    browser: Browser, widget: GraphWidget, tmp_path: Path, theme: str
) -> None:
    widget.to_html(tmp_path / "graph.html", assets="shared")
    outer = tmp_path / "outer.html"
    outer.write_text('<!doctype html><iframe src="graph.html" width="900" height="500"></iframe>')
    context = browser.new_context(color_scheme="dark" if theme == "light" else "light")
    opened, wrong = context.new_page(), []
    opened.on("console", lambda message: wrong.append(message.text))
    opened.goto(outer.as_uri())
    frame = opened.frame_locator("iframe")
    expect(frame.locator(".gw-node").first).to_be_visible()
    opened.evaluate("theme => frames[0].postMessage({ gradwalk: { theme } }, '*')", theme)
    ground = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 15, 17)"}[theme]
    expect(frame.locator("body")).to_have_css("background-color", ground)
    frame.locator("[data-kind=leaf]").click()
    for _ in widget.steps:
        frame.get_by_label("One step", exact=True).click()
    expect(frame.locator(".gw-state")).to_contain_text("step 5 of 5")
    context.close()
    assert wrong == []


def test_it_zooms(page: Page) -> None:
    before = page.locator(".gw-scale").inner_text()
    page.get_by_label("Zoom in").click()
    expect(page.locator(".gw-scale")).not_to_have_text(before)


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_axe_finds_nothing(page: Page) -> None:
    page.locator("[data-kind=leaf]").click()
    page.get_by_label("One step", exact=True).click()
    wait_until_at_rest(page)  # a colour that fades in has less contrast
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(v["id"], v["nodes"]) for v in found["violations"]] == []
    assert len(found["passes"]) > 10


def test_a_name_turns_no_word_beside_it_around(browser: Browser, tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    widget = GraphWidget((x * 2).sum(), names={"a\u202eb\u05e9": x})
    widget.backward()
    widget.selected = 2
    widget.to_html(tmp_path / "turned.html")
    widget.close()
    page = browser.new_page()
    page.goto((tmp_path / "turned.html").as_uri())
    expect(page.locator(".gw-title")).to_be_visible()
    # Each word with Latin letters stands to the right of the one before it, or in a later line.
    turned = page.evaluate(
        """() => {
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const turned = [];
          for (let text; (text = walker.nextNode()); ) {
            if (!text.parentElement.checkVisibility()) continue;
            let before = null;
            for (const { 0: word, index } of text.data.matchAll(/[\\w.]+/g)) {
              const range = document.createRange();
              range.setStart(text, index);
              range.setEnd(text, index + word.length);
              const { left, top, bottom } = range.getBoundingClientRect();
              if (before && top < before.bottom - 2 && left < before.left) turned.push(text.data);
              before = { left, bottom };
            }
          }
          return turned;
        }"""
    )
    assert turned == []
    page.close()


def test_a_still_picture_fits_its_words(browser: Browser, tmp_path: Path) -> None:
    """Its boxes are sized by a table; here Chromium sets the words in the fonts asked for."""
    names = ["lower_case", "WIDE_MM_WW", "Grüße", "x.weight", "θ", "l'il|i1"]
    leaves = {name: torch.ones(3, 4, requires_grad=True) for name in names}
    drawn = GraphWidget(torch.stack(list(leaves.values())).logsumexp(0).sum(), names=leaves)
    file = tmp_path / "graph.svg"
    drawn.to_svg(file, whole=True)
    drawn.close()
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    words = page.evaluate("""() => Array.from(document.querySelectorAll('g[role=img]'), (node) => {
        const sides = (part) => {
            const { x, y, width, height } = part.getBBox();
            return [x, x + width, y, y + height];
        };
        const all = (name) => Array.from(node.querySelectorAll(`:scope > ${name}`));
        return [all('rect').map(sides), sides(all('path')[0]),
            all('text').map((text) => [text.textContent, ...sides(text)])];
    })""")
    context.close()
    assert len(words) == len(names) + 3
    assert sum(len(boxes) == 2 for boxes, _, _ in words) == 3  # a sign in a ring on the left edge
    for (chip, *ring), (rule, *_), texts in words:
        for text, left, right, top, bottom in texts:
            middle = (left + right) / 2
            outside, inside = 6, 3.9  # from an edge, from what parts the chip
            if ring and middle < ring[0][1]:
                cell = (ring[0][0] + outside, ring[0][1] - outside)
            elif middle < rule:
                start = ring[0][1] + inside if ring else chip[0] + outside
                cell = (start, rule - inside)
            else:
                cell = (rule + inside, chip[1] - outside)
            assert cell[0] <= left, (text, left, cell)
            assert right <= cell[1], (text, right, cell)
            beside = [one for one in texts if one[1] < right and one[2] > left]
            over = [one[0] for one in beside if one[3] < bottom and one[4] > top]
            assert over == [text]


LOOKS = """(selector) => Array.from(document.querySelectorAll(selector), (group) =>
  Array.from(group.querySelectorAll('rect, path, circle, text'), (shape) => {
    const style = getComputedStyle(shape);
    const hidden = !shape.getClientRects().length;
    const { fill, stroke, strokeDasharray, fontSize, fontWeight, opacity } = style;
    const width = stroke === 'none' ? '' : style.strokeWidth;
    return hidden ? null : [shape.tagName, shape.getAttribute('d') ?? shape.textContent, fill,
      stroke, width, strokeDasharray, opacity,
      ...(shape.tagName === 'text' ? [fontSize, fontWeight, style.textAnchor] : [])].join(' ');
  }).filter((look) => look !== null && !look.includes('rgba(0, 0, 0, 0) none')))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_still_picture_looks_as_the_widget_does(
    browser: Browser, tmp_path: Path, theme: str
) -> None:
    """Chromium's own cascade against ours: every shape of every node, edge and gradient."""
    x = torch.tensor([2.0], requires_grad=True)
    constant = torch.tensor([3.0])
    drawn = GraphWidget(((x * constant).relu() + x.exp()).sum(), names={"x": x, "c": constant})
    drawn.step(3)
    drawn.selected = 1
    drawn.to_html(tmp_path / "page.html")
    drawn.to_svg(tmp_path / "still.svg", theme="auto")
    drawn.close()
    context = browser.new_context(
        offline=True, color_scheme=theme, viewport={"width": 1400, "height": 1400}
    )
    page, still = context.new_page(), context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator(".gw-node").first).to_be_visible()
    still.goto((tmp_path / "still.svg").as_uri())
    wait_until_at_rest(page)
    there = page.evaluate(LOOKS, ".gw-nodes > g, .gw-edges > g, .gw-gradients > g")
    here = still.evaluate(LOOKS, "svg > g > g")
    context.close()
    assert len(there) > 12
    assert [_without_places(each) for each in here] == [_without_places(each) for each in there]


def _without_places(looks: list[str]) -> list[str]:
    """Fonts are measured differently, so lines run elsewhere: their colours are compared."""
    return [re.sub(r"^path M\S*( [^a-z]\S*)*", "path", look) for look in looks]


SEEN_FARTHEST_OUT = """() => {
  const stage = document.querySelector('.gw-canvas').getBoundingClientRect();
  const seen = [...document.querySelectorAll('.gw-node[data-node]')].flatMap((node) => {
    const box = node.getBoundingClientRect();
    const [left, right] = [Math.max(box.left, stage.left), Math.min(box.right, stage.right)];
    const [top, bottom] = [Math.max(box.top, stage.top), Math.min(box.bottom, stage.bottom)];
    const at = [(left + right) / 2, (top + bottom) / 2];
    const out = Math.abs(at[0] - (stage.left + stage.right) / 2);
    return right - left > 8 && bottom - top > 8 ? [{ id: node.dataset.node, at, out }] : [];
  });
  return seen.sort((a, b) => b.out - a.out)[0];
}"""

THERE = "([x, y]) => document.elementFromPoint(x, y).closest('.gw-node')?.dataset.node"


def test_a_click_is_for_what_it_went_down_on_while_the_picture_moves(page: Page) -> None:
    for _ in range(2):
        page.get_by_label("Zoom in").click()
    wait_until_at_rest(page)
    found = page.evaluate(SEEN_FARTHEST_OUT)
    page.mouse.move(*found["at"])
    assert page.evaluate(THERE, found["at"]) == found["id"]
    page.mouse.down()
    page.get_by_label("Fit the graph", exact=True).dispatch_event("click")
    wait_until_at_rest(page)
    assert page.evaluate(THERE, found["at"]) != found["id"]
    page.mouse.up()
    expect(page.locator(".gw-node.is-selected")).to_have_attribute("data-node", found["id"])
