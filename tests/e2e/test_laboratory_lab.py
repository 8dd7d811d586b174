"""The laboratory with real sliders and keys, compared with torch."""

from __future__ import annotations

import re

from bar import prints, widget
from lab import Lab, Watched, eventually, open_notebook, output_text, run_cell, wait_until_at_rest
from playwright.sync_api import Page, expect

NEURON = """\
import torch
from gradwalk import interact
def neuron(w, x):
    pred = w * x
    return (pred - 1) ** 2
box = interact(neuron, w=(-5.0, 5.0, 0.5), x=2.0)
box"""

# What torch gives for the numbers that the controls hold, in a program of its own.
SAME = """\
w, x = (torch.tensor(box.controls[n].value, requires_grad=True) for n in ("w", "x"))
neuron(w, x).backward()
print(torch.equal(w.grad, box.leaves["w"].grad), torch.equal(x.grad, box.leaves["x"].grad))"""

QUIZ = """\
import torch
from gradwalk import GraphWidget
a = torch.tensor(-3.0, requires_grad=True)
pred = a * 2
g = GraphWidget((pred * 3 - 1) ** 2)
g.quiz("grad", nodes=["pred", "a"])
g"""


def begun(watched: Watched, lab: Lab, name: str, *cells: str) -> Page:
    open_notebook(lab, watched.page, lab.write(f"laboratory-{name}.ipynb", *cells))
    run_cell(watched.page, 0)
    expect(widget(watched.page).locator(".gw-node").first).to_be_visible()
    return watched.page


def value_of(page: Page, name: str) -> float:
    """The number in the card of a leaf."""
    card = widget(page).locator(".gw-node", has=page.get_by_text(name, exact=True)).first
    texts = [text.replace("\u2212", "-") for text in card.locator("text").all_text_contents()]
    return next(float(text) for text in texts if re.fullmatch(r"-?[\d.]+", text))


def place(page: Page) -> list[str | None]:
    nodes = widget(page).locator(".gw-node").all()
    return [node.get_attribute("transform") for node in nodes]


def test_a_dragged_slider_is_followed_and_nothing_moves(watched: Watched, lab: Lab) -> None:
    page = begun(watched, lab, "slider", NEURON, SAME, 'print(box.controls["w"].value)')
    wait_until_at_rest(page)
    before = place(page)
    handle = page.locator(".jupyter-widgets.widget-slider .noUi-handle").first
    box = handle.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for i in range(1, 9):
        page.mouse.move(x + 8 * i, y)
    page.mouse.up()
    eventually(lambda: value_of(page, "w") > 0)
    prints(page, 1, "True True")

    def agree() -> bool:
        run_cell(page, 2)
        return output_text(page, 2).strip() == str(value_of(page, "w"))

    eventually(agree)  # of a drag, more may still be on its way
    assert place(page) == before
    expect(widget(page).locator(".gw-bar-text")).to_contain_text("graph unchanged")

    # The value in the picture is the same as the slider: by mouse and by keys.
    entry = widget(page).get_by_role("slider", name="w", exact=True)
    at = value_of(page, "w")
    entry.press("ArrowLeft")
    eventually(lambda: value_of(page, "w") == at - 0.5)
    prints(page, 2, str(at - 0.5))
    held = entry.bounding_box()
    assert held is not None
    page.mouse.move(held["x"] + 20, held["y"] + 20)
    page.mouse.down()
    page.mouse.move(held["x"] - 60, held["y"] + 20, steps=5)
    page.mouse.up()
    eventually(lambda: value_of(page, "w") < at - 1)
    prints(page, 1, "True True")
    assert place(page) == before


def test_a_quiz_is_answered_with_keys(watched: Watched, lab: Lab) -> None:
    page = begun(watched, lab, "quiz", QUIZ, "print(g.score)", "g.quiz(None); print(g.score)")
    drawing = widget(page)
    first = drawing.get_by_role("textbox", name="grad of pred")
    expect(drawing.locator(".gw-stage")).not_to_contain_text("114")
    first.focus()
    page.keyboard.type("114")
    page.keyboard.press("Enter")
    expect(drawing.locator(".gw-hint")).to_contain_text("Look at the sign")
    first.fill("\u2212114")
    first.press("Enter")
    # The keyboard goes on to what is asked next.
    second = drawing.get_by_role("textbox", name="grad of a")
    expect(second).to_be_focused()
    page.keyboard.type("-2.28e2")
    page.keyboard.press("Enter")
    expect(drawing.locator(".gw-quiz")).to_contain_text("2 of 2 right")
    expect(drawing.locator(".gw-gradients")).to_contain_text("\u2212228")
    prints(page, 1, "{'right': 2, 'wrong': 1, 'revealed': 0, 'of': 2}")
    prints(page, 2, "None")
    expect(drawing.locator(".gw-quiz")).to_be_hidden()
