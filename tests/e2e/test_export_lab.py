"""Saving the picture from the widget's own menu, in JupyterLab."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import resvg_py
import torch
from lab import WIDGET, Lab, Watched, open_notebook, open_view_tools, run_all, set_theme
from PIL import Image, ImageFilter
from playwright.sync_api import Browser, Page, expect

from gradwalk import GraphWidget

SVG = "{http://www.w3.org/2000/svg}"

SMALL = """
import torch
from gradwalk import GraphWidget

x = torch.tensor([1.0, -2.0], requires_grad=True)
w = torch.tensor([[0.5, 1.5], [2.0, -1.0]], requires_grad=True)
hidden = torch.tanh(w @ x)
loss = (hidden * 3).sum()
widget = GraphWidget(loss, direction="down")
widget.backward()
widget.selected = 2
widget.to_svg("python.svg")
widget
"""

LARGE = """
import torch
from gradwalk import GraphWidget

# No part of this sequence comes twice in a row: equal steps would be a strip. It is drawn in parts.
odd = [number.bit_count() % 2 for number in range(10_001)]
value = torch.ones(4, requires_grad=True)
for this, following in zip(odd, odd[1:]):
    value = (torch.sin, torch.cos, torch.tanh)[(following - this) % 3](value)
GraphWidget(value.sum())
"""


@pytest.fixture
def with_clipboard(watched: Watched, lab: Lab) -> Iterator[Watched]:
    """A page that may read and write the clipboard."""
    context = watched.page.context
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=lab.url)
    yield watched
    context.clear_permissions()


def shown(lab: Lab, page: Page, name: str, cell: str) -> None:
    lab.write(name, cell)
    open_notebook(lab, page, name)
    run_all(page)
    page.wait_for_selector(f"{WIDGET} .gw-counts:not(:empty)")
    page.locator(WIDGET).scroll_into_view_if_needed()


def saved(page: Page, kind: str) -> tuple[str, bytes]:
    """The name and the contents of the file that the menu gives."""
    page.get_by_role("button", name="Save picture").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=kind, exact=True).click()
    content = Path(download.value.path()).read_bytes()
    return download.value.suggested_filename, content


def rendered(svg: str, zoom: float = 1) -> Image.Image:
    data = bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom))
    return Image.open(io.BytesIO(data)).convert("RGB")


def difference(one: Image.Image, other: Image.Image) -> float:
    """How far the colours of two pictures are apart on average, 0 to 255.

    Blurred a little: fonts of two machines may differ by a pixel.
    """
    smooth = [
        np.asarray(image.resize(one.size).filter(ImageFilter.GaussianBlur(2)), dtype=float)
        for image in (one, other)
    ]
    return float(np.abs(smooth[0] - smooth[1]).mean())


def test_an_svg_is_the_picture_that_python_draws(watched: Watched, lab: Lab) -> None:
    page = watched.page
    shown(lab, page, "svg.ipynb", SMALL)
    name, content = saved(page, "SVG")
    assert name == "loss.svg"
    root = ET.fromstring(content)
    words = {text for element in root.iter(f"{SVG}text") if (text := "".join(element.itertext()))}
    labels = page.locator(
        f"{WIDGET} .gw-svg .gw-node[data-index] .gw-text:not(.gw-text-fine)"  # of a close view
    )
    drawn = {label.text_content() for label in labels.all()}
    assert {"@", "tanh", "w", "x", "loss"} <= words
    assert drawn <= words
    assert len(drawn) > 8

    ours, python = content.decode(), (lab.folder / "python.svg").read_text()
    browser, still = rendered(ours), rendered(python)
    # The fonts of this machine are not quite as wide as those that a file is made for.
    assert abs(browser.width - still.width) <= 12
    assert abs(browser.height - still.height) <= 4
    assert difference(browser, still) < 2.5
    assert difference(browser, browser.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) > 4


def test_it_has_the_theme_that_is_on_and_all_that_is_out_of_view(
    watched: Watched, lab: Lab
) -> None:
    page = watched.page
    shown(lab, page, "dark.ipynb", SMALL)
    _, light = saved(page, "SVG")
    page.keyboard.press("Escape")
    for _ in range(6):
        page.get_by_role("button", name="Zoom in").click()
    set_theme(page, "JupyterLab Dark")
    expect(page.locator(WIDGET)).to_have_attribute("data-theme", "dark")
    _, dark = saved(page, "SVG")
    assert rendered(light.decode()).getpixel((2, 2)) == (251, 251, 252)
    assert rendered(dark.decode()).getpixel((2, 2)) == (19, 21, 24)
    words = [["".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text")]
             for svg in (light, dark)]  # fmt: skip
    assert words[0] == words[1]


def test_a_png_is_twice_as_large_and_shows_the_same(watched: Watched, lab: Lab) -> None:
    page = watched.page
    shown(lab, page, "png.ipynb", SMALL)
    _, svg = saved(page, "SVG")
    page.keyboard.press("Escape")
    name, content = saved(page, "PNG")
    assert name == "loss.png"
    image = Image.open(io.BytesIO(content)).convert("RGB")
    root = ET.fromstring(svg)
    assert image.size == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))
    assert difference(rendered(svg.decode(), zoom=2), image) < 1.5
    page.get_by_role("status").filter(has_text="Saved loss.png").wait_for()


def test_a_copy_can_be_pasted(with_clipboard: Watched, lab: Lab) -> None:
    page = with_clipboard.page
    shown(lab, page, "copy.ipynb", SMALL)
    _, svg = saved(page, "SVG")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save picture").click()
    page.get_by_role("menuitem", name="Copy as image").click()
    page.get_by_role("status").filter(has_text="Copied").wait_for()
    content = page.evaluate(
        """async () => {
          const [item] = await navigator.clipboard.read();
          const bytes = new Uint8Array(await (await item.getType("image/png")).arrayBuffer());
          return Array.from(bytes);
        }"""
    )
    image = Image.open(io.BytesIO(bytes(content))).convert("RGB")
    assert difference(rendered(svg.decode(), zoom=2), image) < 1.5


@pytest.mark.full
def test_ten_thousand_nodes_are_all_saved(watched: Watched, lab: Lab) -> None:
    page = watched.page
    shown(lab, page, "all_saved.ipynb", LARGE)
    page.wait_for_selector(f"{WIDGET} .gw-canvas[data-painter]")
    open_view_tools(page)
    page.locator(f"{WIDGET} .gw-depth").select_option("all")
    expect(page.locator(f"{WIDGET} .gw-counts")).to_have_text("10,002 nodes")
    expect(page.locator(f"{WIDGET} .gw-closed, {WIDGET} .gw-strip-bar")).to_have_count(0)
    _, content = saved(page, "SVG")
    root = ET.fromstring(content)
    titles = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert sum(titles.count(sign) for sign in ("sin", "cos", "tanh")) == 10_000
    assert float(root.attrib["width"]) > 1000


def test_a_page_without_a_kernel_saves_too(browser: Browser, tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    widget = GraphWidget((x * 3).exp().sum(), names={"x": x})
    widget.to_html(tmp_path / "page.html")
    widget.close()
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector(f"{WIDGET} .gw-canvas[data-painter]")
    _, svg = saved(page, "SVG")
    page.keyboard.press("Escape")
    _, png = saved(page, "PNG")
    page.close()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert difference(rendered(svg.decode(), zoom=2), image) < 1.5
