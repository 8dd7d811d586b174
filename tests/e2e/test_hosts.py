"""What holds in every host: the graph is drawn, can be used, and looks as it does by itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hosts import (
    Host,
    embed_host,
    expect_drawn,
    marimo_host,
    nbconvert_host,
    notebook_host,
    offline_page,
    voila_host,
    vscode_host,
)
from lab import Lab, eventually
from playwright.sync_api import Browser, Locator, Page, expect

from gradwalk import GraphWidget

pytestmark = pytest.mark.full

HOSTS = ["notebook", "voila", "marimo run", "marimo edit", "vscode", "nbconvert", "embed"]


@pytest.fixture(scope="module", params=HOSTS)
def host(
    request: pytest.FixtureRequest,
    browser: Browser,
    fresh_lab: Lab,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host") / "served"
    with contextlib.ExitStack() as stack:
        match request.param.split():
            case ["notebook"]:
                opened = notebook_host(browser, fresh_lab)
            case ["voila"]:
                opened = voila_host(browser, fresh_lab)
            case ["marimo", mode]:
                opened = marimo_host(browser, folder, mode)
            case ["vscode"]:
                opened = vscode_host(browser, fresh_lab, folder)
            case ["nbconvert"]:
                opened = nbconvert_host(browser, folder)
            case _:
                opened = embed_host(browser, folder)
        host = stack.enter_context(opened)
        expect_drawn(host.page)
        yield host


def graph(host: Host) -> Locator:
    return host.page.locator(".gradwalk").first


SIGNS = {"MulBackward0": "×", "AddBackward0": "+", "PowBackward0": "( )²", "SumBackward0": "Σ"}


def node(within: Locator, words: str) -> Locator:
    """A drawn node by its words: cards have the sign of an operation alone, written last."""
    sign = re.escape(SIGNS.get(words, words))
    written = re.compile(f"{re.escape(words)}|^{sign}|{sign}$")
    return within.locator(".gw-node").filter(has_text=written).first


def press(within: Locator, label: str) -> None:
    within.get_by_role("button", name=label, exact=True).click()


def knows(host: Host, words: str) -> None:
    """Wait until Python shows what it knows, where there is one."""
    if host.answers:
        expect(host.page.get_by_text(f"Python knows: {words}")).to_be_visible()


def test_the_graph_is_drawn_with_the_users_own_names(host: Host) -> None:
    for name in ("loss", "w", "x", "b", "h"):
        own = f"_{name}" if name == "h" and host.name.startswith("marimo") else name
        expect(graph(host).get_by_text(own, exact=True).first).to_be_visible()


def test_a_click_reaches_the_panel_and_python(host: Host) -> None:
    node(graph(host), "PowBackward0").click()
    expect(graph(host).locator(".gw-title")).to_have_text("PowBackward0")
    knows(host, "selected 1,")
    node(graph(host), "AddBackward0").click()
    knows(host, "selected 2,")
    details = "requires_grad" if host.answers else "Still waiting for Python"
    expect(graph(host).locator(".gw-panel")).to_contain_text(details)
    node(graph(host), "PowBackward0").click()


def test_the_bar_steps(host: Host) -> None:
    bar = graph(host).locator(".gw-bar-text")
    for step in (1, 2):  # the first runs backward, where none is recorded
        press(graph(host), "One step")
        expect(bar).to_contain_text(f"step {step} of 7")
    knows(host, "selected 1, cursor 2")
    press(graph(host), "To the start")
    expect(bar).to_contain_text("before step 1 of 7")
    knows(host, "selected 1, cursor 0")


DEEP_FOCUS = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at.closest('.gradwalk') ? at.className : `outside: ${at.outerHTML.slice(0, 80)}`;
}"""


# Until what a click has scrolled and changed is where, and as, it stays.
AT_REST = """async (root) => {
  const places = () => JSON.stringify([root.getBoundingClientRect(),
    ...Array.from(root.querySelectorAll('.gw-layer'), (each) => each.getAttribute('transform'))]);
  for (let before = places(), alike = 0; alike < 20; ) {
    await new Promise(requestAnimationFrame);
    const now = places();
    alike = now === before ? alike + 1 : 0;
    before = now;
  }
  const ending = root.getAnimations({ subtree: true })
    .filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity);
  await Promise.allSettled(ending.map(({ finished }) => finished));
}"""


def place(host: Host) -> tuple[float, ...]:
    """Where the graph is: Escape closes a panel below the picture, which changes the height."""
    box = graph(host).bounding_box()
    return box["x"], box["y"], box["width"]


def test_keys_stay_in_the_graph(host: Host) -> None:
    page, cells = host.page, host.cells()
    node(graph(host), "PowBackward0").click()
    graph(host).evaluate(AT_REST)
    at = place(host)
    for key in ("ArrowDown", "ArrowUp", "d", "d", "a", "b", "x", "f", "Enter", "Escape"):
        page.keyboard.press(key)
        assert "gw-" in page.evaluate(DEEP_FOCUS), key
        assert place(host) == at, key
    page.keyboard.press("/")
    expect(graph(host).locator(".gw-search-field")).to_be_focused()
    page.keyboard.type("mul")
    page.keyboard.press("Enter")
    expect(graph(host).locator(".gw-search-count")).to_contain_text("1 of")
    for key in ("Enter", "Escape", "Escape"):
        page.keyboard.press(key)
        assert "gw-" in page.evaluate(DEEP_FOCUS), key
    assert host.cells() == cells


# What adds or deletes a cell in one of the hosts, when it is pressed outside of the graph.
COMMANDS = (
    "Alt+Enter",
    "Control+Enter",
    "Control+Shift+Enter",
    "Control+Shift+o",
    "Control+Shift+p",
    "Control+Shift+Backspace",
    "Control+Shift+Minus",
    "Control+x",
    "Control+v",
)


def test_shortcuts_are_the_hosts_and_change_no_cell(host: Host) -> None:
    page, cells = host.page, host.cells()
    press(graph(host), "Fit the graph")
    node(graph(host), "PowBackward0").click()
    # Where VS Code listens, which takes for a command whatever arrives.
    page.evaluate(
        "() => { window.heard = []; addEventListener('keydown', (e) => heard.push(e.key)); }"
    )
    for key in ("F1", "Control+p", "Alt+x", "Meta+k", "d", "d", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.evaluate("heard") == ["F1", "Control", "p", "Alt", "x", "Meta", "k"]
    for key in COMMANDS:
        press(graph(host), "Fit the graph")  # keys that are the picture's own move it
        node(graph(host), "PowBackward0").click()
        page.keyboard.press(key)
    page.wait_for_timeout(500)  # for what must not happen
    assert host.cells() == cells


LOOKS = """(root) => {
  const names = ['display', 'fontFamily', 'fontSize', 'fontWeight', 'fontStyle', 'lineHeight',
    'letterSpacing', 'wordSpacing', 'textTransform', 'textDecorationLine', 'textAlign', 'color',
    'backgroundColor', 'backgroundImage', 'borderTop', 'borderRight', 'borderBottom', 'borderLeft',
    'borderTopLeftRadius', 'paddingTop', 'paddingRight', 'paddingBottom', 'paddingLeft',
    'marginTop', 'marginBottom', 'boxShadow', 'boxSizing', 'listStyleType', 'cursor', 'opacity',
    'whiteSpace', 'minHeight', 'maxHeight', 'fill', 'stroke', 'strokeWidth',
    'textShadow', 'fontVariantNumeric', 'fontFeatureSettings', 'textIndent'];
  const name = (e) => `${e.tagName.toLowerCase()}.${e.getAttribute('class') ?? ''}`;
  const found = {};
  for (const each of [root, ...root.querySelectorAll('*')]) {
    if (!each.getClientRects().length) continue;
    const style = getComputedStyle(each);
    const path = each === root ? name(each) : `${name(each.parentElement)} > ${name(each)}`;
    for (const property of names) {
      // A slider draws no text.
      if (each.type === 'range' && /^(color|font|line|letter|word|text)/.test(property)) continue;
      const value = style[property];
      // A border of no width has a colour and a style all the same; nobody sees them.
      found[`${path} { ${property} }`] ??= value.replace(/^0px .*/, '');
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def by_itself(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Any]:
    """How the widget looks on a page without any other style, by whether its panel is below."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    w = torch.tensor([4.0, 3.0], requires_grad=True)
    b = torch.tensor(0.5, requires_grad=True)
    h = w * x + b
    drawn = GraphWidget((h**2).sum())
    drawn.step(1)  # so that Play works
    drawn.cursor = 0
    file = tmp_path_factory.mktemp("alone") / "graph.html"
    drawn.to_html(file)
    drawn.close()
    found = {}
    for is_below, width in ((False, 1280), (True, 900)):
        with offline_page(browser) as page:
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(file.as_uri())
            found[is_below] = looks(page)
    return found


def looks(page: Page) -> Any:
    """How each part of the widget looks, with a node selected and nothing under the pointer."""
    play = page.locator(".gradwalk").first.get_by_role("button", name="Play", exact=True)
    if play.is_disabled():  # no pass is recorded yet
        press(page.locator(".gradwalk").first, "One step")
        press(page.locator(".gradwalk").first, "To the start")
        expect(play).to_be_enabled()
    press(page.locator(".gradwalk").first, "Fit the graph")
    node(page.locator(".gradwalk").first, "PowBackward0").click()
    expect(page.locator(".gradwalk").first.locator(".gw-title")).to_have_text("PowBackward0")
    page.keyboard.press("Tab")  # so that a focus is drawn
    page.locator(".gradwalk").first.get_by_role("button", name="Fit the graph").focus()
    page.mouse.move(1, 1)
    page.locator(".gradwalk").first.evaluate(AT_REST)
    return page.locator(".gradwalk").first.evaluate(LOOKS)


def test_it_looks_as_by_itself(host: Host, by_itself: dict[bool, Any]) -> None:
    here = looks(host.page)
    alone = by_itself["has-panel-below" in graph(host).get_attribute("class")]
    shared = alone.keys() & here.keys()
    assert len(shared) > 1500
    different = [
        f"{each}: {here[each]}, not {alone[each]}"
        for each in sorted(shared)
        if here[each] != alone[each]
    ]
    assert not different, "\n".join(different[:40])


ROOM = """(root) => {
  const frame = root.querySelector('.gw-frame').getBoundingClientRect();
  const out = Array.from(root.querySelectorAll('.gw-toolbar *, .gw-bar *, .gw-panel *'))
    .filter((each) => each.getClientRects().length)
    .filter((each) => !each.closest('.gw-visually-hidden, .gw-values'))
    .filter((each) => {
      const { left, right } = each.getBoundingClientRect();
      return left < frame.left - 1 || right > frame.right + 1;
    });
  const readable = root.querySelectorAll('.gw-node > .gw-text:not(.gw-text-fine)');
  const texts = Array.from(readable, (text) => {
    const { left, right, height } = text.getBoundingClientRect();
    const holders = Array.from(text.closest('.gw-node').querySelectorAll('.gw-box, .gw-card-sign'));
    const fits = holders.map((holder) => holder.getBoundingClientRect())
      .some((box) => left >= box.left && right <= box.right);
    return { words: text.textContent, height, fits };
  });
  return { width: frame.width, out: out.map((each) => each.outerHTML.slice(0, 90)), texts };
}"""


def test_it_can_be_read_at_the_hosts_own_width(host: Host) -> None:
    for widget in host.page.locator(".gradwalk").all():
        close = widget.get_by_role("button", name="Close the details panel")
        if close.is_visible():  # the panel is beside the picture
            close.click()
        press(widget, "Fit the graph")
        eventually(lambda widget=widget: can_be_read(widget.evaluate(ROOM)))


def can_be_read(room: dict[str, Any]) -> bool:
    """Whether there is room for everything, once the picture is made for this width."""
    texts = all(text["fits"] and text["height"] >= 9 for text in room["texts"])
    return room["width"] > 500 and room["out"] == [] and texts


def test_two_graphs_are_compared(host: Host) -> None:
    compared = host.page.locator(".gw-comparison")
    expect(compared.locator(".gw-pane-label")).to_have_text(["all", "cut"])
    for nth in (0, 1):
        pane = compared.locator(".gw-pane").nth(nth)
        expect(node(pane, "MulBackward0")).to_be_visible()
    node(compared.locator(".gw-pane").nth(1), "MulBackward0").click()
    expect(compared.locator(".gw-node.is-selected")).to_have_count(2)
    expect(compared.locator(".gw-leaves")).to_contain_text("requires_grad")
    cell = compared.locator(".gw-leaves td").first
    expect(cell).to_have_css("border-bottom-width", "1px")
    if host.answers:
        press(compared, "One step")
        expect(compared.locator(".gw-bar-text")).to_contain_text("step 1 of")
        press(compared, "To the start")


GROUND = """(root) => {
  const pen = document.createElement('canvas').getContext('2d');
  for (let at = root; at; at = at.parentElement ?? at.getRootNode().host) {
    pen.fillStyle = getComputedStyle(at).backgroundColor;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    if (alpha > 0) return (red + green + blue) / 3;
  }
  return 255;
}"""


def test_the_theme_is_the_hosts(host: Host) -> None:
    """The last of all, because the host stays dark."""
    for theme in ("light", "dark"):
        if theme == "dark":
            host.set_theme(theme)
            expect_drawn(host.page)
        for widget in host.page.locator(".gradwalk").all():
            expect(widget).to_have_attribute("data-theme", theme)
            assert (widget.evaluate(GROUND) < 128) is (theme == "dark"), "the ground round it"
