"""What one move of a slider of `interact` costs, in Python and in Chromium.

    python benchmarks/drag.py [--full]

Python: from setting the control until all is sent (forward, backward, what is shown of both). What
was sent is then given to the widget's own script in Chromium (software rendering), message by
message as a notebook does: the time that the page's main thread is busy with it, scripts, layout
and painting, and the time until the frame is there, which waits for the screen. Python's is CPU
time, a median of the moves and a mean; the page's its thread's, a mean; the last one is a median of
wall clock time. `--full` moves the slider of a small function 10,000 times on both sides, and says
what is left of it after collecting garbage: the process's memory, the tensors that are alive, the
page's heap and elements.

Needs the built script (`make setup`), and Chromium.
"""

from __future__ import annotations

import argparse
import base64
import gc
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import comm
import torch
from ipywidgets.widgets.widget import _remove_buffers  # type: ignore[import-untyped]
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from gradwalk import interact
from gradwalk.features.interact.interact import Interact

ASSETS = Path(__file__).parents[1] / "src" / "gradwalk" / "assets"


def unrolled(steps: int) -> Callable[..., torch.Tensor]:
    """A loop over scalars: four nodes for each step."""

    def function(w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        h = w * 0.5
        for _ in range(steps):
            h = torch.tanh(w * h + b)
        return (h - 1) ** 2

    return function


class Sent(comm.base_comm.BaseComm):  # type: ignore[misc]
    """A channel that keeps what is sent through it."""

    kept: list[tuple[str, dict[str, Any]]] | None = None

    def publish_msg(self, *_: Any, data: Any = None, buffers: Any = None, **__: Any) -> None:
        """Keep a state."""
        if Sent.kept is not None and isinstance(data, dict) and "state" in data:
            told = plain(data["state"], data.get("buffer_paths") or [], buffers or [])
            Sent.kept.append((self.comm_id, told))


def plain(state: Mapping[str, Any], paths: list[list[str]], buffers: list[Any]) -> dict[str, Any]:
    """A state as JSON: bytes are written out."""
    found = {name: value for name, value in state.items() if name not in ("_esm", "_css")}
    for path, raw in zip(paths, buffers, strict=True):
        if len(path) == 1:
            found[path[0]] = {"bytes": base64.b64encode(bytes(raw)).decode()}
    return found


PAGE = """<!doctype html><style>CSS</style><body><div id="host"></div><script type="module">
const { default: make } = await import('/widget.js');
const listeners = new Map();
const values = {};
const take = (state) => {
  for (const [key, value] of Object.entries(state))
    state[key] = value && value.bytes
      ? new DataView(Uint8Array.from(atob(value.bytes), (c) => c.charCodeAt(0)).buffer) : value;
  return state;
};
const model = {
  get: (name) => values[name],
  set: (name, value) => { values[name] = value; },
  save_changes() {}, send() {},
  on: (event, call) => listeners.set(event, [...(listeners.get(event) ?? []), call]),
  off(event, call) {
    listeners.set(event, (listeners.get(event) ?? []).filter((known) => known !== call));
  },
};
// As ipywidgets does: all values first, then a call for each that changed.
const put = (state) => {
  Object.assign(values, state);
  for (const name of Object.keys(state))
    for (const call of listeners.get('change:' + name) ?? []) call();
};
const frame = () => new Promise((done) => requestAnimationFrame(done));
const copied = (states) => states.map((group) => group.map((state) => take({ ...state })));
// A task of its own right after a frame is one after its painting.
const painted = () => new Promise((done) => requestAnimationFrame(() => {
  const { port1, port2 } = new MessageChannel();
  port2.onmessage = () => done();
  port1.postMessage(0);
}));
window.begin = async (state) => {
  Object.assign(values, take(state));
  (await make()).render({ model, el: document.getElementById('host') });
  await new Promise((done) => setTimeout(done, 1500));
};
window.run = async (states, times) => {
  const messages = copied(states);
  const shown = [];
  for (let i = 0; i < times; i++) {
    await frame();
    const start = performance.now();
    for (const state of messages[i % messages.length]) put({ ...state });
    await painted();
    shown.push(performance.now() - start);
  }
  return shown;
};
window.ready = true;
</script>"""


def neuron(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The small function of `--full`."""
    return (w * x - 1) ** 2


def box_of(function: Callable[..., torch.Tensor]) -> Interact:
    """Sliders for a function of two numbers, the first of which is moved."""
    names = function.__annotations__.keys() - {"return"}
    return interact(function, **dict.fromkeys(sorted(names), (-5.0, 5.0, 0.001)))


def move(box: Interact, moves: int) -> tuple[list[list[dict[str, Any]]], list[float]]:
    """Move a slider: what was sent for each move, and CPU ms of each."""
    sent, took = [], []
    for i in range(moves):
        Sent.kept = []
        start = time.process_time()
        box.controls["w"].value = 0.5 + (i % 500) / 1000
        took.append((time.process_time() - start) * 1e3)
        sent.append([state for whose, state in Sent.kept if whose == box.widget.comm.comm_id])
    Sent.kept = None
    return sent, took


def opened(browser: Browser, box: Interact) -> tuple[Page, CDPSession]:
    """A page with the picture as it stands, and what measures in it."""
    page = browser.new_page(viewport={"width": 1180, "height": 900})
    script, style = (ASSETS / "widget.js").read_text(), (ASSETS / "widget.css").read_text()
    page.route(
        "**/widget.js", lambda route: route.fulfill(body=script, content_type="text/javascript")
    )
    page.route(
        "**/page.html",
        lambda route: route.fulfill(body=PAGE.replace("CSS", style), content_type="text/html"),
    )
    page.set_default_timeout(0)
    page.goto("http://localhost:1/page.html")
    page.wait_for_function("window.ready")
    page.evaluate("state => window.begin(state)", plain(*_remove_buffers(box.widget.get_state())))
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return page, session


def metrics(session: CDPSession) -> dict[str, float]:
    """Return the work of the page's thread so far, and its memory."""
    return {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }


def leaks(browser: Browser, updates: int) -> None:
    """Print what many updates leave behind."""
    box = box_of(neuron)
    sent, _ = move(box, 500)
    page, session = opened(browser, box)
    for done in range(0, updates + 1, updates // 4):
        if done:
            for _ in range(updates // 4 // 500):
                move(box, 500)
                page.evaluate("([s, n]) => window.run(s, n)", [sent, 500])
        gc.collect()
        status = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]
        tensors = sum(type(each) is torch.Tensor for each in gc.get_objects())
        session.send("HeapProfiler.collectGarbage")
        held = metrics(session)
        print(
            f"{done:>6,} updates: {int(status) / 1024:.0f} MiB of memory, {tensors} tensors; in "
            f"the page {held['JSHeapUsedSize'] / 1e6:.1f} MB of heap, {held['Nodes']:.0f} nodes"
        )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="10,000 updates as well")
    full = parser.parse_args().full
    comm.create_comm = Sent
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        print(f"{'nodes':>5}{'Python':>10}{'mean':>10}{'page':>10}{'on screen':>12}   (ms)")
        for steps in (1, 10, 16, 48, 62):
            box = box_of(unrolled(steps))
            move(box, 10)
            sent, python = move(box, 60)
            page, session = opened(browser, box)
            page.evaluate("([s, n]) => window.run(s, n)", [sent, 20])
            before = metrics(session)
            shown = page.evaluate("([s, n]) => window.run(s, n)", [sent, 60])
            busy = (metrics(session)["TaskDuration"] - before["TaskDuration"]) / 60 * 1e3
            count = len(box.widget.model["nodes"])
            median, mean = statistics.median(python), statistics.mean(python)
            times = f"{median:>10.1f}{mean:>10.1f}{busy:>10.1f}{statistics.median(shown):>12.1f}"
            print(f"{count:>5}{times}")
            page.close()
            box.close()
        if full:
            leaks(browser, 10_000)
        browser.close()


if __name__ == "__main__":
    main()
