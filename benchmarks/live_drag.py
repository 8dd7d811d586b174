"""What one drag of a number costs on a live page, in Chromium and without Python.

    python benchmarks/live_drag.py [--full]

A slider of a page moves, frame by frame. "frame" is the median time from the start of the frame
that shows the number until it is painted: forward, backward, the picture, layout and painting.
"thread" is the mean time that the page's main thread is busy for each move, by its own clock, which
other programs on the machine do not change. "calls" is the number of calls that the page computes.
The targets are 16 ms for 60 nodes and 33 ms for 200. `drag.py` measures the same function with a
kernel. `--full` makes more moves.

Needs the built script (`make setup`), and Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from drag import box_of, metrics, unrolled
from playwright.sync_api import Browser, sync_playwright

_DRAG = """async (moves) => {
  const slider = document.querySelector('.gw-live-slider');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const took = [];
  for (let i = 0; i < moves; i++) {
    await frame();
    took.push(await new Promise((done) => {
      let start = 0;
      requestAnimationFrame(() => { start = performance.now(); });
      slider.value = String(0.5 + (i % 500) / 1000);
      slider.dispatchEvent(new Event('input'));
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port2.onmessage = () => done(performance.now() - start);
        port1.postMessage(0);
      });
    }));
  }
  return took;
}"""


def measure(browser: Browser, steps: int, moves: int) -> str:
    """Return a row of the table."""
    box = box_of(unrolled(steps))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(box.to_html(Path(folder) / "page.html"))
        page = browser.new_page(viewport={"width": 1180, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector(".gw-node, canvas[data-painter]")
        page.wait_for_timeout(1500)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate(_DRAG, 20)
        before = metrics(session)["TaskDuration"]
        took = page.evaluate(_DRAG, moves)
        busy = (metrics(session)["TaskDuration"] - before) / moves * 1e3
        model = page.locator("#gradwalk-program").text_content()
        calls = len(json.loads(model or "{}")["calls"])
        page.close()
    nodes = len(box.widget.model["nodes"])
    box.close()
    return f"{nodes:>5}{calls:>8}{statistics.median(took):>10.1f}{busy:>10.1f}"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more moves")
    moves = 300 if parser.parse_args().full else 60
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        print(f"{'nodes':>5}{'calls':>8}{'frame':>10}{'thread':>10}   (ms)")
        for steps in (1, 18, 48, 64):
            print(measure(browser, steps, moves))
        browser.close()


if __name__ == "__main__":
    main()
