"""JupyterLab when backward cannot start, raises, is interrupted or makes NaN."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bar import at_step, bar, drawn, press, prints, start, widget
from lab import Lab, Watched, eventually, output_text, run_cell, run_command
from playwright.sync_api import Page, expect

CUSTOM = """\
import time, torch
from gradwalk import GraphWidget
behave = lambda grad: grad
class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 3
    @staticmethod
    def backward(ctx, grad):
        return behave(grad * 3)
a = torch.tensor(2.0, requires_grad=True)
x = torch.tensor(3.0, requires_grad=True)
x.grad = torch.tensor(7.0)
loss = Custom.apply(x) * a
g = GraphWidget(loss)
g"""

BEHAVE = """\
def fail(grad):
    raise ValueError("no gradient today")
behave = fail"""


def interrupt(page: Page, began: Path) -> None:
    """Press Lab's square button once a file shows that it runs; wait until the kernel is free."""
    status = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
    eventually(began.exists)
    run_command(page, "kernelmenu:interrupt")
    page.wait_for_function(f"() => {status} === 'idle'")


@pytest.mark.parametrize(
    ("name", "program", "sentence"),
    [
        ("vector", "h = t * 2\ng = GraphWidget(h)", r"h has shape \(3,\), so it has no one gradi"),
        (
            "freed",
            "h = t.exp().sum()\nh.backward()\ng = GraphWidget(h)",
            "Backward cannot run again: ExpBackward0",
        ),
    ],
)
def test_a_backward_that_cannot_start_says_why(
    watched: Watched, lab: Lab, name: str, program: str, sentence: str
) -> None:
    page = start(
        watched,
        lab,
        name,
        "import torch\nfrom gradwalk import GraphWidget\n"
        f"t = torch.ones(3, requires_grad=True)\n{program}\ng",
        "g.backward(torch.tensor([1.0, 2.0, 3.0])); print(t.grad.tolist())",
    )
    expect(bar(page)).to_contain_text(re.compile(sentence))
    for label in ("One step", "To the end", "Play"):
        expect(bar(page).get_by_role("button", name=label, exact=True)).to_be_disabled()
    run_cell(page, 1)
    if name == "vector":
        assert output_text(page, 1).strip() == "[2.0, 4.0, 6.0]"
        at_step(page, "backward done")
    else:
        assert "RuntimeError: Backward cannot run again" in output_text(page, 1)


def test_a_backward_that_raises_is_drawn_and_marked(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "raises",
        CUSTOM,
        BEHAVE,
        "print(a.grad, x.grad.item())",
        "behave = lambda grad: grad\ng.backward()",
    )
    run_cell(page, 1)
    press(page, "One step")
    expect(widget(page).locator(".gw-fault")).to_contain_text("ValueError: no gradient today")
    expect(widget(page).locator(".gw-fault")).to_contain_text("Backward stopped at CustomBackward")
    expect(widget(page).locator(".gw-bar-note.is-alarming")).to_contain_text("CustomBackward")
    expect(drawn(page, ".gw-mark-error")).to_have_count(1)
    run_cell(page, 2)
    assert output_text(page, 2).strip() == "None 7.0"

    run_cell(page, 3)  # mended, the same graph runs
    at_step(page, "backward done")
    expect(drawn(page, ".gw-mark-error")).to_have_count(0)
    expect(widget(page).locator(".gw-fault")).to_have_count(0)
    prints(page, 2, "tensor(9.) 13.0")
    press(page, "To the start")
    prints(page, 2, "None 7.0")


@pytest.mark.parametrize("by", ["cell", "button"])
def test_an_interrupted_backward_puts_every_grad_back(watched: Watched, lab: Lab, by: str) -> None:
    page = start(
        watched,
        lab,
        f"interrupt-{by}",
        CUSTOM,
        "began = []\ndef behave(grad):\n    began.append(1)\n"
        f"    open('began-{by}', 'w').close()\n"
        "    time.sleep(600)\n    return grad",
        "print(a.grad, x.grad.item(), began)",
        "behave = lambda grad: grad",
        "g.backward()",
    )
    run_cell(page, 1)
    if by == "button":
        press(page, "One step")
    else:
        page.evaluate(
            """() => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = 4;
              notebook.deselectAll();
              window.jupyterapp.commands.execute('notebook:run-cell');
            }"""
        )
    interrupt(page, lab.folder / f"began-{by}")
    expect(widget(page)).to_contain_text("This backward pass stopped, so every .grad was put back")
    prints(page, 2, "None 7.0 [1]")
    run_cell(page, 3)
    run_cell(page, 4)
    at_step(page, "backward done")
    prints(page, 2, "tensor(9.) 13.0 [1]")


def test_where_nan_is_born_is_marked(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "nan",
        "import torch\nfrom gradwalk import GraphWidget\n"
        "x = torch.tensor(0.0, requires_grad=True)\nroot = x.sqrt()\nloss = root * 0\n"
        "g = GraphWidget(loss)\ng",
        "print(x.grad.isnan().item(), g.run['marks'][0]['node'])",
    )
    press(page, "To the end")
    expect(widget(page)).to_contain_text("NaN is born here")
    expect(drawn(page, ".gw-mark-nan")).to_have_count(1)
    run_cell(page, 1)
    nan, node = output_text(page, 1).split()
    assert nan == "True"
    widget(page).get_by_role("button", name="Show root").click()
    expect(widget(page).locator(".gw-title").first).to_have_text("root")
    expect(widget(page).locator(f".gw-node[data-node='{node}']")).to_have_class(
        re.compile("is-selected")
    )
