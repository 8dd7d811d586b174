"""No text of the gallery's pictures touches another one, or a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from examples import EXAMPLES
from lab import wait_until_at_rest
from playwright.sync_api import Browser, Page, expect

# The texts that touch another text, by less than 3 px, or are crossed by a line. A cell of a
# gradient covers the word below it; a gradient or a shape on an arrow interrupts its line.
TOUCHING = """() => {
  const svg = document.querySelector('.gw-svg');
  const scale = svg.querySelector('g').getCTM().a;
  const isSeen = (node) => {
    for (let at = node; at !== svg; at = at.parentElement) {
      const { display, visibility, opacity } = getComputedStyle(at);
      if (display === 'none' || visibility === 'hidden' || Number(opacity) === 0) return false;
    }
    return true;
  };
  const texts = [...svg.querySelectorAll('text')]
    .filter((node) => node.textContent.trim() && isSeen(node))
    .map((node) => {
      const { left, right, top, bottom } = node.getBoundingClientRect();
      const base = (top + bottom) / 2 + 0.27 * parseFloat(getComputedStyle(node).fontSize) * scale;
      const high = 0.73 * parseFloat(getComputedStyle(node).fontSize) * scale;
      const isIn = (name) => node.closest(name) !== null;
      return { words: node.textContent, left, right, top: base - high, bottom: base,
        isCell: isIn('.gw-cell'), isLabel: isIn('.gw-gradient, .gw-edge-label'),
        isNode: isIn('.gw-node') };
    });
  const found = [];
  const isCovered = (a, b) => a.isNode && b.isCell && b.left < (a.left + a.right) / 2
    && b.right > (a.left + a.right) / 2;
  texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => {
    const across = Math.max(a.left, b.left) - Math.min(a.right, b.right);
    const along = Math.max(a.top, b.top) - Math.min(a.bottom, b.bottom);
    if (along < 0 && across < 3 && !isCovered(a, b) && !isCovered(b, a))
      found.push([a.words, b.words]);
  }));
  for (const line of svg.querySelectorAll('.gw-line')) {
    const { a, d, e, f } = line.getScreenCTM();
    for (let at = 0; at <= line.getTotalLength(); at += 2) {
      const point = line.getPointAtLength(at);
      const [x, y] = [a * point.x + e, d * point.y + f];
      const crossed = texts.find(({ left, right, top, bottom, isLabel }) =>
        !isLabel && x > left && x < right && y > top && y < bottom);
      if (crossed) found.push([crossed.words, 'a line']);
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_text_touches_another_or_a_line(page: Page, tmp_path: Path, name: str) -> None:
    with closing(EXAMPLES[name].shown(True)) as widget:
        file = widget.to_html(tmp_path / "graph.html")
    for width in (1400, 800):
        page.set_viewport_size({"width": width, "height": 1000})
        page.goto(file.as_uri())
        expect(page.locator(".gw-node").first).to_be_visible()
        wait_until_at_rest(page)
        assert page.evaluate(TOUCHING) == [], f"at {width} px"
