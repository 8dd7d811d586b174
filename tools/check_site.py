"""Opens the built documentation site in Chromium, as files and from a server: `make docs`.

Every page opens without an error in the console, axe-core finds nothing on it, and on pages with
live pictures these draw, step, and follow the theme of the site.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "_build" / "html"
AXE = ROOT / "js" / "node_modules" / "axe-core" / "axe.min.js"
STEPPED = ("index.html", "howto/step.html", "tutorials/01_first_graph.html")
"""Pages whose first live picture is stepped through."""
COMPARED = "howto/compare.html"
"""A page whose first live picture has several graphs."""
SEARCHES = {
    "LoRA": "howto/fine-tuning",
    "frozen": "howto/fine-tuning",
    "nan": "howto/nan",
    "None": "howto/missing-gradient",
    "in-place": "howto/in-place",
    "inplace": "howto/in-place",
    "does not learn": "howto/does-not-learn",
}
"""Words that people look for, and the page that must be among the first results."""
FIRST = 4  # results
NARROW = 400  # px
RULES = """async () => {
  const found = await axe.run(document, { iframes: false, runOnly: ["wcag2a", "wcag2aa"] });
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)}`);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that does not log."""

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class Server(http.server.ThreadingHTTPServer):
    """A server that does not mind when a page is closed while it loads."""

    def handle_error(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """Serve the site on this machine, and yield its address."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def problems_of(browser: Browser, address: str, name: str, with_rules: bool) -> list[str]:
    """Return what is wrong with a page."""
    page, found = browser.new_page(viewport={"width": 1400, "height": 1000}), []
    page.on("console", lambda m: found.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.goto(address + name, wait_until="load")
    if name in STEPPED:
        found += live_problems(page)
    if name == COMPARED:
        found += comparison_problems(page)
    if with_rules:
        page.add_script_tag(path=str(AXE))
        found += page.evaluate(RULES)
        page.set_viewport_size({"width": NARROW, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            found.append(f"it is wider than {NARROW} px")
    page.close()
    return found


def live_problems(page: Page) -> list[str]:
    """Step through the first live picture of a page, and turn the theme."""
    page.locator("iframe.live").first.scroll_into_view_if_needed()
    picture = page.frame_locator("iframe.live").first
    picture.locator(".gw-node").first.wait_for()
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    picture.locator("html[data-theme=dark]").wait_for(state="attached")
    step = picture.get_by_label("One step", exact=True)
    start = picture.get_by_label("To the start", exact=True)
    if start.is_enabled():
        start.click()
    step.click()
    bar = picture.locator(".gw-bar-text").inner_text()
    found = [] if "step 1 of" in bar else [f"after a step the bar says {bar!r}"]
    page.wait_for_timeout(500)
    tall = picture.locator("#gradwalk").evaluate("host => host.offsetHeight")
    shown = page.locator("iframe.live").first.evaluate("frame => frame.offsetHeight")
    return found if tall == shown else [*found, f"a picture of {tall} px has a frame of {shown}"]


def search_problems(browser: Browser, server: str) -> list[str]:
    """Look for the words in the search of the site."""
    found, page = [], browser.new_page()
    for words, wanted in SEARCHES.items():
        page.goto(f"{server}search.html?q={quote(words)}", wait_until="load")
        page.get_by_text("Search finished").or_(page.get_by_text("did not match")).first.wait_for()
        links = page.locator("#search-results li > a")
        first = links.evaluate_all(f"all => all.slice(0, {FIRST}).map(each => each.href)")
        if not any(wanted in link for link in first):
            found.append(f"a search for {words!r} gives {first}")
    page.close()
    return found


def comparison_problems(page: Page) -> list[str]:
    """Compare the height of the first comparison's frame with that of its pages."""
    frame = page.locator("iframe.live").first
    frame.scroll_into_view_if_needed()
    inner = page.frame_locator("iframe.live").first.locator("iframe")
    inner.first.content_frame.locator(".gw-node").first.wait_for()
    page.wait_for_timeout(500)
    bodies = [inner.nth(i).content_frame.locator("body") for i in range(inner.count())]
    tall = max(body.evaluate("body => body.offsetHeight") for body in bodies)
    shown = frame.evaluate("frame => frame.offsetHeight")
    return [] if tall <= shown else [f"a comparison of {tall} px has a frame of {shown}"]


def main() -> int:
    """Check the site; returns the exit status."""
    names = sorted(each.relative_to(SITE).as_posix() for each in SITE.rglob("*.html"))
    pages = [name for name in names if not name.startswith(("_", "genindex", "search", "py-mod"))]
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    wrong = []
    with sync_playwright() as player, served() as server:
        browser = player.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name in pages:
            for address in (f"{SITE.as_uri()}/", server):
                is_file = address != server
                if is_file and name not in STEPPED:
                    continue
                found = problems_of(browser, address, name, with_rules=not is_file)
                wrong += [f"{address}{name}: {each}" for each in found]
        wrong += search_problems(browser, server)
        browser.close()
    sys.stdout.write("".join(f"{each}\n" for each in wrong))
    sys.stdout.write(f"{len(pages)} pages of the site, {len(wrong)} problems\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
