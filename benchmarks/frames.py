"""How smoothly large graphs move in Chromium with software rendering.

    python benchmarks/frames.py [--full]

Opens the demo page (built from `js/demo`, so Node and `npm ci` are needed) on transformers of
about 1,000 and 10,000 nodes, with `--full` of 100,000 as well, opens all their modules, and then
drags and turns the wheel once in every frame. Reported are milliseconds: until the first picture is
there, until all nodes are, the median and the 95th percentile of the time between frames, and the
longest task that blocked the page while the view moved. A screen shows a frame every 16.7 ms.

Before that it opens saved pages of small graphs whose pictures take most layouts, and reports the
longest task that blocked each page until its first picture, at two widths.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser, Page, sync_playwright
from torch import Tensor, nn

from gradwalk import GraphWidget, watch

JS = Path(__file__).parents[1] / "js"
PORT = 8063
SIZES = {"transformer, 16 layers": 16, "transformer, 160 layers": 160}
FULL_SIZES = {"transformer, 1,500 layers": 1500}
FRAMES = {"small": 60, "full": 200}
WIDTHS = (1180, 750)

WATCH = """() => {
  window.firstPicture = null;
  const look = () => {
    if (document.querySelector('.gw-svg .gw-node')) window.firstPicture = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}"""

TASKS = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => {
    window.tasks.push(...list.getEntries().map((one) => one.duration));
  }).observe({ entryTypes: ['longtask'] });
}"""

MOVE = """async (count) => {
  const svg = document.querySelector('.gw-svg');
  const { left, top, width, height } = svg.getBoundingClientRect();
  const at = { clientX: left + width / 2, clientY: top + height / 2 };
  const options = { bubbles: true, cancelable: true, view: window };
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const mouse = (type, x, y, target) => target.dispatchEvent(
    new MouseEvent(type, { ...options, clientX: at.clientX + x, clientY: at.clientY + y }));
  const wheel = (deltaY) => svg.dispatchEvent(
    new WheelEvent('wheel', { ...options, ...at, deltaY, metaKey: true }));
  const tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ entryTypes: ['longtask'] });
  const phases = [];
  const run = async (name, act) => {
    const times = [];
    const before = tasks.length;
    let last = await frame();
    for (let i = 0; i < count; i++) {
      act(i / count);
      const now = await frame();
      times.push(now - last);
      last = now;
    }
    await new Promise((done) => setTimeout(done, 500));
    times.sort((a, b) => a - b);
    phases.push({
      name,
      median: times[times.length >> 1],
      slow: times[Math.floor(0.95 * times.length)],
      blocked: Math.max(0, ...tasks.slice(before)),
    });
  };
  const pan = async (name) => {
    mouse('mousedown', 0, 0, svg);
    const move = (x, y) => mouse('mousemove', x, y, window);
    await run(name, (t) => move(240 * Math.sin(12 * t), 180 * (1 - Math.cos(12 * t))));
    mouse('mouseup', 0, 0, window);
  };
  const step = 1600 / count;
  document.querySelector('.gw-canvas').focus();
  await pan('pan, all of it');
  await run('zoom in', () => wheel(-step));
  await pan('pan, further in');
  await run('zoom in', () => wheel(-step));
  await pan('pan, near');
  await run('zoom out', () => wheel(2 * step));
  return phases;
}"""


def used_again(times: int) -> Tensor:
    """One layer used several times, with all its results added."""
    layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    h, results = torch.randn(2, 4), []
    for _ in range(times):
        h = layer(h)
        results.append(h)
    return torch.stack(results).sum()


def recurrent(length: int) -> Tensor:
    """A recurrent cell over a sequence, with a head at every step."""
    cell, head = nn.RNNCell(4, 8), nn.Linear(8, 2)
    h, results = torch.zeros(3, 8), []
    for x in torch.randn(length, 3, 4):
        h = cell(x, h)
        results.append(head(torch.relu(h)))
    return torch.stack(results).sum()


def gru(length: int) -> Tensor:
    """A bidirectional GRU of two layers over a sequence."""
    total: Tensor = nn.GRU(8, 8, 2, bidirectional=True)(torch.randn(length, 3, 8))[0].sum()
    return total


def encoder(layers: int) -> Tensor:
    """A transformer's encoder."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    total: Tensor = nn.TransformerEncoder(layer, layers)(torch.randn(2, 5, 16)).sum()
    return total


PICTURES: dict[str, Callable[[], Tensor]] = {
    "a layer used five times": lambda: used_again(5),
    "a layer used ten times": lambda: used_again(10),
    "an RNN cell, 5 steps": lambda: recurrent(5),
    "a GRU, 5 steps": lambda: gru(5),
    "an encoder of 2 layers": lambda: encoder(2),
    "an encoder of 12 layers": lambda: encoder(12),
}


def blocked(browser: Browser, program: Callable[[], Tensor], width: int) -> float:
    """Open the saved page of a graph.

    Args:
        browser: Where to open it.
        program: What returns the loss.
        width: The width of the window, px.

    Returns:
        The longest task until the first picture, ms.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        with watch():
            loss = program()
        widget = GraphWidget(loss)
        widget.to_html(path)
        widget.close()
        page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
        page.add_init_script(f"({TASKS})()")
        page.goto(f"file://{path}")
        page.wait_for_selector(".gw-svg .gw-node", timeout=120_000)
        page.wait_for_timeout(300)
        longest: float = page.evaluate("Math.max(0, ...window.tasks)")
        page.context.close()
    return longest


@contextmanager
def demo() -> Iterator[str]:
    """Serve the demo page; gives its address."""
    command = ["node", "build.mjs", "--serve"]
    server = subprocess.Popen(
        command, cwd=JS, env=os.environ | {"PORT": str(PORT)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        server.stdout.readline()
        yield f"http://127.0.0.1:{PORT}/"
    finally:
        server.terminate()
        server.wait(20)


def measure(browser: Browser, address: str, layers: int, frames: int) -> dict[str, Any]:
    """Open one graph and move about in it.

    Args:
        browser: Where to open it.
        address: The demo page.
        layers: How many layers the transformer has.
        frames: How many frames each movement takes.

    Returns:
        "nodes", "first" and "all" in ms, and "phases": name, median, slow and blocked in ms.
    """
    page = browser.new_context(viewport={"width": 1180, "height": 1000}).new_page()
    page.add_init_script(f"({WATCH})()")
    page.goto(f"{address}?layers={layers}")
    page.wait_for_function("window.firstPicture !== null", timeout=120_000)
    first = page.evaluate("window.firstPicture")
    settle(page)
    start = time.perf_counter()
    page.locator(".gw-view > button").click()
    page.locator(".gw-depth").select_option("all")
    settle(page)
    plumbing = page.get_by_label("Hide views and transposes")
    if plumbing.get_attribute("aria-pressed") == "true":
        plumbing.click()
        settle(page)
    page.locator(".gw-view > button").click()
    whole = (time.perf_counter() - start) * 1e3
    page.get_by_label("Fit the graph").click()
    page.wait_for_timeout(2000)
    found = {
        "nodes": page.locator(".gw-counts").inner_text().split(" ")[0],
        "first": first,
        "all": whole,
        "phases": page.evaluate(MOVE, frames),
    }
    page.context.close()
    return found


def settle(page: Page) -> None:
    """Wait until nothing is laid out any more; what would be asked for first is answered."""
    for _ in range(600):
        page.wait_for_timeout(700)
        if page.locator(".gw-progress.is-offer:not([hidden]) button").count():
            page.locator(".gw-progress.is-offer button").click()
        elif not page.locator(".gw-progress:not([hidden])").count():
            return
    raise RuntimeError("The graph was not laid out within seven minutes.")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="100,000 nodes too, and more frames")
    full = parser.parse_args().full
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with demo() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        print(f"Chromium {browser.version}, software rendering, {platform.machine()}\n")
        for name, program in PICTURES.items():
            times = " ".join(f"{blocked(browser, program, width):>8.0f}" for width in WIDTHS)
            print(f"{name:<28}{'first picture, longest task, ms':<32}{times}")
        print(f"\n{'graph':<28}{'movement':<18}{'median':>8}{'95 %':>8}{'longest task':>14}")
        for name, layers in (SIZES | (FULL_SIZES if full else {})).items():
            found = measure(browser, address, layers, FRAMES["full" if full else "small"])
            for phase in found["phases"]:
                print(
                    f"{name:<28}{phase['name']:<18}{phase['median']:>8.1f}{phase['slow']:>8.1f}"
                    f"{phase['blocked']:>14.0f}"
                )
            print(
                f"{'':<28}{found['nodes']} nodes: first picture after {found['first']:,.0f} ms, "
                f"all open after {found['all']:,.0f} ms\n"
            )
        browser.close()


if __name__ == "__main__":
    main()
