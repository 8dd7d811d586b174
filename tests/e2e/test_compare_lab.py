"""Two graphs side by side in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

from bar import prints
from lab import (
    Lab,
    Watched,
    eventually,
    open_notebook,
    output_text,
    run_cell,
    set_theme,
    wait_until_at_rest,
)
from playwright.sync_api import Locator, Page, expect

COMPARE = """\
import torch
from gradwalk import compare
x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([4.0, 3.0], requires_grad=True)
b = torch.tensor([0.5, 0.1], requires_grad=True)
def h(x):
    return (w * x + b).sum()
g = compare({"all": h(x), "<b>x.detach()</b>": h(x.detach())}, names={"x": x, "w": w, "b": b})
g"""

ALONE = """\
for made in (h(x), h(x.detach())):
    found = torch.autograd.grad(made, [w, x, b], allow_unused=True)
    print([None if grad is None else [int(n) for n in grad] for grad in found])"""


def start(watched: Watched, lab: Lab, name: str, *cells: str) -> Page:
    open_notebook(lab, watched.page, lab.write(f"{name}.ipynb", *cells))
    run_cell(watched.page, 0)
    return watched.page


def pane(page: Page, nth: int) -> Locator:
    return page.locator(".gradwalk .gw-pane").nth(nth)


def node(page: Page, nth: int, words: str) -> Locator:
    """A drawn node by what is written on it."""
    # Not in lower case: "gradΣ" ends in another small letter than "Σ" is.
    written = re.compile(re.escape(words))
    return pane(page, nth).locator(".gw-node").filter(has_text=written).first


def says(page: Page, leaf: str, cells: slice, words: list[str]) -> None:
    """Wait until the table says something of a leaf."""
    eventually(lambda: row(page, leaf)[cells] == words)


def row(page: Page, leaf: str) -> list[str]:
    """The table's words for a leaf, without its name."""
    found = page.locator(".gw-leaves tbody tr").filter(
        has=page.get_by_role("button", name=f"Select {leaf}", exact=True)
    )
    return found.locator("td").all_inner_texts()


def test_the_graphs_are_drawn_and_what_only_one_has_is_marked(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "compare", COMPARE)
    expect(page.locator(".gw-pane-label")).to_have_text(["all", "<b>x.detach()</b>"])
    expect(page.locator(".gw-pane-label b")).to_have_count(0)
    for nth in (0, 1):
        expect(node(page, nth, "×")).to_be_visible()
    expect(node(page, 0, "x")).to_be_visible()
    expect(pane(page, 0).locator(".gw-only-tag")).to_have_text(["only here"])
    page.get_by_role("button", name="Legend and keys").click()
    expect(page.locator(".gw-legend")).to_contain_text("what other graphs lack")
    wait_until_at_rest(page)
    for words in ("Σ", "+", "×"):
        boxes = [box_in_pane(page, nth, words) for nth in (0, 1)]
        assert boxes[0] == boxes[1], words


def box_in_pane(page: Page, nth: int, words: str) -> tuple[int, int]:
    """Where a node lies within its pane."""
    outer = pane(page, nth).locator(".gw-canvas").bounding_box()
    inner = node(page, nth, words).locator(".gw-box").bounding_box()
    assert outer
    assert inner
    return round(inner["x"] - outer["x"]), round(inner["y"] - outer["y"])


def test_selecting_zooming_and_dragging_go_together(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "linked", COMPARE, "print(g.model['nodes'][g.selected]['op'])")
    node(page, 1, "×").click()
    for nth in (0, 1):
        expect(node(page, nth, "×")).to_have_class(re.compile("is-selected"))
    expect(page.locator(".gw-selected")).to_contain_text("MulBackward0")
    prints(page, 1, "MulBackward0")

    page.get_by_role("button", name="Zoom in").click()
    wait_until_at_rest(page)
    ground = pane(page, 0).locator(".gw-svg").bounding_box()
    assert ground
    page.mouse.move(ground["x"] + 20, ground["y"] + 20)
    page.mouse.down()
    page.mouse.move(ground["x"] + 60, ground["y"] + 45, steps=4)
    page.mouse.up()
    wait_until_at_rest(page)
    moved = page.locator(".gw-pane .gw-layer").evaluate_all(
        "layers => layers.map((layer) => layer.getAttribute('transform'))"
    )
    assert moved[0] == moved[1]
    assert box_in_pane(page, 0, "+") == box_in_pane(page, 1, "+")


def test_the_table_says_what_torch_says(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "table", COMPARE, ALONE, "g.backward()", "print(w.grad, x.grad)")
    before = ["True", "True", "None", "None"]
    says(page, "w", slice(None), before * 2)
    run_cell(page, 1)
    alone: list[Any] = [eval(line) for line in output_text(page, 1).split("\n") if line.strip()]
    run_cell(page, 2)
    expect(page.locator(".gw-leaves thead")).to_contain_text(".grad after")
    for i, leaf in enumerate("wxb"):
        says(page, leaf, slice(3, 4), [str(alone[0][i])])
        if len(row(page, leaf)) == 8:  # x itself is drawn beside its detached alias
            says(page, leaf, slice(7, 8), [str(alone[1][i])])
    run_cell(page, 3)
    assert "tensor([1., 2.]) tensor([4., 3.])" in output_text(page, 3)


def test_one_button_steps_through_both(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "stepping", COMPARE, "print(g.cursor, b.grad, w.grad)")
    page.get_by_role("button", name="One step", exact=True).click()
    for nth in (0, 1):
        expect(node(page, nth, "Σ")).to_have_class(re.compile("is-running"))
    page.get_by_role("button", name="One step", exact=True).click()
    page.get_by_role("button", name="One step", exact=True).click()
    expect(page.locator(".gw-bar-text")).to_contain_text("step 3 of")
    expect(page.locator(".gw-bar-text")).to_contain_text("adds to b.grad")
    expect(page.locator(".gw-leaves thead")).to_contain_text("at step 3")
    prints(page, 1, "3 tensor([1., 1.]) None")
    says(page, "b", slice(3, 4), ["[1, 1]"])
    says(page, "w", slice(3, 4), ["None"])


def test_your_own_backward_is_seen_by_the_table(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "own", COMPARE, "w.grad = torch.tensor([10., 20.]); g2 = h(x)", "1")
    run_cell(page, 1)
    expect(page.locator(".gw-leaves")).to_contain_text("[10, 20]")
    says(page, "w", slice(2, 4), ["[10, 20]", "[10, 20]"])


def test_a_narrow_cell_stacks_the_graphs_and_both_themes_are_followed(
    watched: Watched, lab: Lab
) -> None:
    page = start(watched, lab, "narrow", COMPARE)
    page.set_viewport_size({"width": 640, "height": 1000})
    widget = page.locator(".gradwalk")
    expect(widget).to_have_class(re.compile("is-narrow"))
    expect(pane(page, 1)).to_be_visible()

    def is_stacked() -> bool:
        first, second = (pane(page, nth).bounding_box() for nth in (0, 1))
        if not first or not second:
            return False
        return second["y"] >= first["y"] + first["height"] and second["x"] == first["x"]

    eventually(is_stacked)
    for theme in ("Dark", "Light"):
        set_theme(page, f"JupyterLab {theme}")
        expect(widget).to_have_attribute("data-theme", theme.lower())


def test_an_update_shows_other_graphs(watched: Watched, lab: Lab) -> None:
    update = 'g.update({"square": (x**2).sum(), "cube": (x**3).sum(), "sine": x.sin().sum()})'
    page = start(watched, lab, "compare_update", COMPARE, update)
    expect(page.locator(".gw-pane-label")).to_have_text(["all", "<b>x.detach()</b>"])
    run_cell(page, 1)
    expect(page.locator(".gw-pane-label")).to_have_text(["square", "cube", "sine"])
    expect(pane(page, 2)).to_contain_text("sin")
    expect(page.locator(".gw-comparison")).to_have_count(1)
