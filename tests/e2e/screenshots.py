"""Takes the README's pictures, the moving one too, from a real JupyterLab: `make screenshots`."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import (
    Lab,
    open_notebook,
    run_cell,
    running_browser,
    running_lab,
    set_theme,
)
from PIL import Image
from playwright.sync_api import Browser, Page

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Picture:
    """What to show.

    Attributes:
        name: The name of its files in docs, before "-light.png" and "-dark.png".
        program: The cell that makes the widget.
        then: The code that the kernel runs afterwards.
        width: The width of the browser's window, px.
        scale: Pixels of the picture per pixel of the page.
        height: The height of the window, px.
        chosen: The choices in the widget: selectors of its controls, and values.
        shown: The selector that is awaited before the picture is taken.
        steps: How often the widget steps on; the picture moves if it does.
    """

    name: str
    program: str
    then: str
    width: int
    scale: float
    height: int = 900
    chosen: tuple[tuple[str, str], ...] = ()
    shown: str = ".gradwalk [data-kind='leaf']"
    steps: int = 0


NEURON = Picture(
    "widget",
    """\
import torch
from gradwalk import GraphWidget, watch

w = torch.tensor(-3.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
x, y = torch.tensor(2.0), torch.tensor(1.0)

with watch():
    pred = w * x + b
    loss = (pred - y) ** 2
graph = GraphWidget(loss)
graph""",
    "loss.backward()",
    width=1220,
    scale=1.4,
)

# The same graph, stepped through by the widget itself.
MOVING = Picture("moving", NEURON.program, "pass", width=1220, scale=1, steps=6)

STEPPING = Picture(
    "stepping",
    """\
import torch
from gradwalk import GraphWidget

x = torch.tensor(3.0, requires_grad=True)
y1 = x + 1
y2 = 2 * x
loss = (y1 - y2) ** 2
graph = GraphWidget(loss)
graph""",
    """\
graph.step(4)
graph.selected = next(n['id'] for n in graph.model['nodes'] if n['name'] == 'y1')""",
    width=1160,
    scale=1.25,
)


COMPARED = Picture(
    "compare",
    """\
import torch
from gradwalk import compare, watch

def build(x, detach=False):
    return w * (x.detach() if detach else x) + b

w, b, x = (torch.tensor(n, requires_grad=True) for n in (4.0, 0.5, 3.0))
frozen_x = torch.tensor(3.0)
with watch():
    frozen, cut = build(frozen_x), build(x, detach=True)

graph = compare({"requires_grad=False": frozen, "x.detach()": cut})
graph""",
    "graph.backward()",
    width=1160,
    scale=1.1,
    height=1300,
)

MODEL = Picture(
    "model",
    """\
import torch
from torch import nn
from gradwalk import GraphWidget, diagnose, watch

class Reader(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        stack = [each for _ in range(8) for each in (nn.Linear(width, width), nn.Sigmoid())]
        self.stem = nn.Sequential(*stack)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.head(self.encoder(self.stem(tokens)))

torch.manual_seed(0)
model = Reader()
with watch():
    loss = model(torch.randn(4, 16, 32)).square().mean()
graph = GraphWidget(loss)
graph""",
    "graph.backward(); graph.diagnose()",
    width=1240,
    scale=1.2,
    height=1300,
    chosen=((".gw-colour-by", "gradient"),),
    shown=".gradwalk .gw-closed",
)

_PLANNED = """\
import torch
import gradwalk
from torch import nn

class Block(nn.Module):
    def __init__(self, width=4096, inner=11008):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())

def build():
    return nn.Sequential(*(Block() for _ in range(32)), nn.Linear(4096, 32000)).bfloat16()

batch = torch.zeros(8192, 4096, dtype=torch.bfloat16)
graph = gradwalk.plan(build, batch, loss=torch.sum, optimizer=torch.optim.AdamW)"""

PLAN = Picture(
    "plan",
    f"{_PLANNED}\ngraph",
    "pass",
    width=1000,
    scale=1.6,
    chosen=((".gw-colour-by", "memory"),),
    shown=".gw-plan-chart",
)

PICTURES = (NEURON, MOVING, STEPPING, COMPARED, MODEL, PLAN)


@dataclass(frozen=True)
class Film:
    """One of the questions that gradwalk answers, in a few frames.

    Attributes:
        name: The name of its file in docs/films.
        program: The cell that makes the widget.
        acts: What happens between two frames: code for the kernel, or something done in the page.
        height: The height of the window, px.
    """

    name: str
    program: str
    acts: tuple[str | Callable[[Page], None], ...]
    height: int = 900


def _diagnose(page: Page) -> None:
    page.get_by_role("button", name="Diagnose").click()
    page.wait_for_selector(".gw-finding")


def _click(selector: str) -> Callable[[Page], None]:
    return lambda page: page.locator(selector).first.click()


_SELECT = "graph.selected = next(n['id'] for n in graph.model['nodes'] if n['name'] == {!r})"

FILMS = (
    Film(
        "missing_gradient",
        """\
import torch
from gradwalk import GraphWidget, watch

w = torch.tensor(2.0, requires_grad=True)
x = torch.tensor(3.0)
with watch():
    features = (w * x).tanh()
    loss = (features.detach() * 2 - 1) ** 2 + 0.1 * w
graph = GraphWidget(loss)
graph""",
        ("loss.backward()", _click("[data-kind=cut]"), _SELECT.format("w")),
    ),
    Film("stepping", STEPPING.program, (*["graph.step()"] * 5, "graph.step_back(2)")),
    Film(
        "vanishing",
        MODEL.program,
        ("graph.backward()", _diagnose, _click(".gw-finding button")),
        height=1300,
    ),
    Film(
        "what_if",
        """\
import torch
from gradwalk import GraphWidget

w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(0.5)
h = w * x
out = h + torch.tanh(h)
graph = GraphWidget(out)
graph.backward()
graph""",
        (
            "graph.edits = [{'kind': 'cut', 'edge': (0, 0)}]",
            "graph.edits = [{'kind': 'scale', 'edge': (0, 0), 'value': 0.5}]",
            "graph.edits = []",
        ),
    ),
    Film(
        "will_it_fit",
        f"{_PLANNED}\nshown = display(graph, display_id=True)",
        (
            lambda page: page.locator(".gw-plan-chart").click(position={"x": 260, "y": 40}),
            "shown.update(graph.apply(graph.advise(budget='24GB')))",
        ),
    ),
    Film(
        "held",
        """\
import torch
from torch import nn
from gradwalk import GraphWidget, watch

model = nn.Sequential(nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 1))
losses = []
for step in range(20):            # validation, but without no_grad()
    with watch():
        losses.append(model(torch.randn(512, 1000)).square().mean())
graph = GraphWidget(losses[-1])
graph""",
        (_diagnose, _click(".gw-finding button")),
    ),
)


def main() -> None:
    """Write every picture and film, or those that are named on the command line."""
    wanted = sys.argv[1:]
    pictures = [each for each in PICTURES if not wanted or each.name in wanted]
    films = [each for each in FILMS if not wanted or each.name in wanted]
    (DOCS / "films").mkdir(exist_ok=True, parents=True)
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        notebooks = Path(folder) / "notebooks"
        notebooks.mkdir()
        with running_lab(notebooks) as lab:
            for picture in pictures:
                _take(picture, lab, browser)
                lab.stop_kernels()
            for film in films:
                print(_filmed(film, lab, browser))
                lab.stop_kernels()


def _take(picture: Picture, lab: Lab, browser: Browser) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        device_scale_factor=picture.scale,
    )
    page = context.new_page()
    open_notebook(lab, page, lab.write(f"{picture.name}.ipynb", picture.program))
    run_cell(page, 0)
    page.wait_for_selector(picture.shown)
    _run_hidden(page, picture.then)
    for selector, value in picture.chosen:
        page.select_option(selector, value)
    if picture.chosen:
        page.get_by_role("button", name="Fit the graph").click()
    for theme in ("Light", "Dark"):
        set_theme(page, f"JupyterLab {theme}")
        target = DOCS / f"{picture.name}-{theme.lower()}"
        if picture.steps:
            print(_moving(page, picture, target.with_suffix(".webp")))
        else:
            target.with_suffix(".png").write_bytes(_still(page))
            print(target.with_suffix(".png"))
    context.close()


def _still(page: Page) -> bytes:
    page.mouse.move(5, 5)
    page.wait_for_timeout(1000)
    return page.locator(".gradwalk").screenshot()


def _moving(page: Page, picture: Picture, target: Path) -> Path:
    """A picture of every step, one after the other, for ever; the last one stays longest."""
    # Without the panel, beside which the graph would be small.
    _run_hidden(page, "graph.step()")
    panel = page.get_by_role("button", name="Close the details panel")
    if panel.is_visible():
        panel.click()
    _run_hidden(page, "graph.reset()")
    hint = page.get_by_role("button", name="Close this hint")
    if hint.is_visible():
        hint.click()
    page.get_by_role("button", name="Fit the graph").click()  # it moved beside the panel
    frames = [_still(page)]
    for _ in range(picture.steps):
        _run_hidden(page, "graph.step()")
        frames.append(_still(page))
    first, *others = (Image.open(io.BytesIO(each)).convert("RGB") for each in frames)
    durations = [1500, *[1600] * (len(others) - 1), 4500]  # ms
    first.save(
        target, save_all=True, append_images=others, duration=durations, loop=0, lossless=True
    )
    return target


def _filmed(film: Film, lab: Lab, browser: Browser) -> Path:
    """A frame before, and one after each act."""
    page = browser.new_page(viewport={"width": 1340, "height": film.height})
    open_notebook(lab, page, lab.write(f"{film.name}.ipynb", film.program))
    run_cell(page, 0)
    page.wait_for_selector(".gradwalk .gw-node")
    page.get_by_role("button", name="Close this hint").click()
    frames = [_still(page)]
    for act in film.acts:
        if isinstance(act, str):
            _run_hidden(page, act)
        else:
            act(page)
        frames.append(_still(page))
    page.close()
    images = [Image.open(io.BytesIO(each)).convert("RGBA") for each in frames]
    size = tuple(max(each.size[side] for each in images) for side in (0, 1))
    first, *others = (_padded(each, size) for each in images)
    target = DOCS / "films" / f"{film.name}.webp"
    durations = [1800, *[2200] * (len(others) - 1), 4500]  # ms
    smallest: dict[str, Any] = {"lossless": True, "method": 6, "quality": 100}
    times: dict[str, Any] = {"duration": durations, "loop": 0}
    first.save(target, save_all=True, append_images=others, **times, **smallest)
    return target


def _padded(image: Image.Image, size: tuple[int, ...]) -> Image.Image:
    """The same picture on a clear ground of one size for all frames."""
    whole = Image.new("RGBA", (size[0], size[1]))
    whole.paste(image)
    return whole


def _run_hidden(page: Page, code: str) -> None:
    """Run code in the notebook's kernel without a cell."""
    page.evaluate(
        """async (code) => {
          const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          await kernel.requestExecute({ code }).done;
        }""",
        code,
    )


if __name__ == "__main__":
    main()
