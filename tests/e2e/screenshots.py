"""Takes the README's pictures, from a real JupyterLab: `make screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab import open_notebook, run_cell, running_browser, running_lab, set_theme
from playwright.sync_api import Page

DOCS = Path(__file__).parents[2] / "docs"

NEURON = """\
import torch
from gradwalk import GraphWidget

x, target = torch.tensor([0.5, -1.0, 2.0]), 1.0
w = torch.tensor([0.1, 0.4, -0.3], requires_grad=True)
b = torch.tensor(0.2, requires_grad=True)

p = torch.sigmoid(w @ x + b)
loss = -(target * p.log() + (1 - target) * (1 - p).log())
graph = GraphWidget(loss)
graph"""


def main() -> None:
    """Write docs/widget-light.png and docs/widget-dark.png."""
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        notebooks = Path(folder) / "notebooks"
        notebooks.mkdir()
        with running_lab(notebooks) as lab:
            name = lab.write("neuron.ipynb", NEURON)
            context = browser.new_context(
                viewport={"width": 1220, "height": 900}, device_scale_factor=2
            )
            page = context.new_page()
            open_notebook(lab, page, name)
            run_cell(page, 0)
            page.wait_for_selector(".gradwalk [data-kind='leaf']")
            _run_hidden(
                page,
                "loss.backward()\ngraph.selected = next("
                "n['id'] for n in graph.graph['nodes'] if n['name'] == 'w')",
            )
            for theme in ("Light", "Dark"):
                set_theme(page, f"JupyterLab {theme}")
                page.mouse.move(5, 5)
                page.wait_for_timeout(1000)
                target = DOCS / f"widget-{theme.lower()}.png"
                page.locator(".gradwalk").screenshot(path=target)
                print(target)


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
