"""Stepping through backward with real buttons and keys, compared with what torch holds."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from bar import EXAMPLE, POSITION, at_step, bar, drawn, gradients, press, prints, start, widget
from lab import (
    Lab,
    Watched,
    eventually,
    open_notebook,
    output_text,
    run_all,
    run_cell,
    run_command,
    wait_for_kernel,
    wait_until_at_rest,
    wait_until_heard,
)
from playwright.sync_api import expect

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

# What torch's engine does, seen by hooks of our own on a second program of the same kind.
ENGINE = """\
def engine(program, start):
    leaf = torch.tensor(start, requires_grad=True)
    output = program(leaf)
    nodes, ops = [output.grad_fn], []
    for node in nodes:
        nodes += [child for child, _ in node.next_functions if child and child not in nodes]
    for node in nodes:
        node.register_hook(lambda *_, node=node: ops.append(node.name().split("::")[-1]))
    output.backward()
    return ops, leaf.grad.item()
ops, grad = engine(lambda x: (x + 1 - 2 * x) ** 2, 3.0)
print(ops == [step.op for step in g.steps], grad == x.grad.item(), grad)"""


def test_buttons_walk_through_the_example(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "example", EXAMPLE, POSITION, ENGINE)
    at_step(page, "No backward yet")
    press(page, "One step")
    at_step(page, "step 1 of 5")
    prints(page, 1, "1 None")  # mid-way, in another cell
    expect(drawn(page, ".gw-node.is-running")).to_have_attribute("data-node", "0")

    passed = (
        "passes \u22124 on to + y1, and 4 on to × 2 y2",
        "passes 8 to x",
        "passes \u22124 to x",
    )
    for number, words in enumerate(passed, 2):
        press(page, "One step")
        at_step(page, f"step {number} of 5")
        at_step(page, words)
        prints(page, 1, f"{number} None")
    press(page, "One step")
    at_step(page, "backward done · 5 steps")
    at_step(page, "x.grad None → 4")
    prints(page, 1, "5 4.0")
    eventually(lambda: {"\u22124", "+ 8"} <= {*gradients(page)})  # the second row of x
    run_cell(page, 2)
    assert output_text(page, 2).strip() == "True True 4.0"
    expect(bar(page).get_by_role("button", name="One step", exact=True)).to_be_disabled()

    press(page, "One step back")
    at_step(page, "step 4 of 5")
    prints(page, 1, "4 None")
    press(page, "To the start")
    at_step(page, "before step 1 of 5")
    prints(page, 1, "0 None")
    press(page, "To the end")
    prints(page, 1, "5 4.0")


def test_the_end_button_runs_a_fresh_graph_to_its_end(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "end", EXAMPLE, POSITION)
    press(page, "To the end")
    at_step(page, "backward done")
    prints(page, 1, "5 4.0")
    expect(bar(page).locator(".gw-bar-owner")).to_be_hidden()


def test_keys_on_the_bar_leave_the_notebook_alone(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "keys", EXAMPLE, POSITION)
    cells = page.locator(".jp-Notebook-cell").count()
    active = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    bar(page).get_by_role("button", name="One step", exact=True).focus()
    where = page.evaluate(active)
    for key, place in (
        ("ArrowRight", "step 1 of 5"),
        ("ArrowRight", "step 2 of 5"),
        ("ArrowLeft", "step 1 of 5"),
        ("End", "backward done"),
        ("Home", "before step 1 of 5"),
    ):
        page.keyboard.press(key)
        at_step(page, place)
    slider = bar(page).get_by_role("slider")
    slider.focus()
    for key, place in (
        ("End", "backward done"),
        ("ArrowLeft", "step 4 of 5"),
        ("ArrowRight", "backward done"),
        ("Home", "before step 1 of 5"),
        ("ArrowRight", "step 1 of 5"),
    ):
        page.keyboard.press(key)
        at_step(page, place)
    for key in ("a", "b", "d", "d", "x", "m", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)  # in Lab's command mode these change the notebook
    assert page.locator(".jp-Notebook-cell").count() == cells
    assert page.evaluate(active) == where


def test_the_slider_can_be_dragged(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "slider", EXAMPLE, POSITION)
    press(page, "To the end")
    at_step(page, "backward done")
    slider = bar(page).get_by_role("slider")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] - 8, middle)
    page.mouse.down()
    for share in (0.8, 0.6, 0.41):
        page.mouse.move(box["x"] + box["width"] * share, middle, steps=4)
    page.mouse.up()
    at_step(page, "step 2 of 5")
    prints(page, 1, "2 None")


def test_play_and_pause(watched: Watched, lab: Lab) -> None:
    # So many steps that it does not end before it is paused.
    program = EXAMPLE.replace("** 2", "** 2\nfor _ in range(200):\n    loss = loss + 0")
    page = start(watched, lab, "play", program, POSITION, "print(g.cursor)")
    text = bar(page).locator(".gw-bar-text")
    press(page, "One step")
    at_step(page, "step 1 of 205")
    press(page, "Play")
    expect(text).to_contain_text(re.compile(r"step (?!1 )\d+ of 205"))
    press(page, "Pause")
    expect(bar(page).get_by_role("button", name="Play", exact=True)).to_be_visible()
    wait_until_heard(page)  # and the answer is here
    there = text.inner_text()
    prints(page, 2, re.search(r"step (\d+) of", there)[1])
    page.wait_for_timeout(1500)  # nothing is to happen
    assert text.inner_text() == there
    slider = bar(page).get_by_role("slider")
    for key, place in (
        ("End", "backward done"),
        ("ArrowLeft", "step 204 of 205"),
        ("ArrowLeft", "step 203 of 205"),
    ):
        slider.press(key)
        at_step(page, place)
    press(page, "Play")
    at_step(page, "backward done")
    expect(bar(page).get_by_role("button", name="Play", exact=True)).to_be_visible()
    prints(page, 1, "205 4.0")


def test_the_users_own_backward_is_only_watched(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "watched", EXAMPLE, "loss.backward()", POSITION)
    run_cell(page, 1)
    at_step(page, "backward done")
    expect(bar(page).locator(".gw-bar-owner")).to_have_text("recorded")
    expect(bar(page).locator(".gw-bar-owner")).to_have_attribute(
        "title", re.compile("Your program ran this backward pass")
    )
    press(page, "To the start")
    prints(page, 2, "0 4.0")
    press(page, "One step")
    at_step(page, "step 1 of 5")
    prints(page, 2, "1 4.0")


@pytest.mark.fresh
def test_after_a_restart_the_old_picture_says_that_it_moves_nothing(
    watched: Watched, lab: Lab
) -> None:
    page = start(watched, lab, "restarted", EXAMPLE)
    press(page, "One step")
    at_step(page, "step 1 of 5")
    owner = bar(page).locator(".gw-bar-owner")
    expect(owner).to_be_hidden()
    run_command(page, "kernelmenu:restart")
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(owner).to_have_text("recorded")
    expect(widget(page)).to_contain_text("The kernel that made this picture has gone")
    press(page, "One step")
    at_step(page, "step 2 of 5")
    wait_for_kernel(page)
    run_command(page, "notebook:run-cell")  # it has number 1 once more
    expect(bar(page)).to_contain_text("No backward yet")
    press(page, "One step")
    expect(owner).to_be_hidden()


def test_a_grad_that_something_else_changed_is_left_alone(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "lost", EXAMPLE, "x.grad.zero_()", POSITION)
    press(page, "To the end")
    at_step(page, "backward done")
    run_cell(page, 1)
    press(page, "One step back")
    expect(widget(page)).to_contain_text("x.grad was changed by something else")
    expect(bar(page).locator(".gw-bar-owner")).to_have_text("recorded")
    prints(page, 2, "4 0.0")
    press(page, "To the start")
    prints(page, 2, "0 0.0")


def test_two_widgets_step_in_turn(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "two", EXAMPLE, "other = GraphWidget(loss)\nother", POSITION)
    run_cell(page, 1)
    expect(page.locator(".gradwalk")).to_have_count(2)
    press(page, "To the end", 0)
    at_step(page, "backward done", 0)
    prints(page, 2, "5 4.0")
    # The other has watched the pass of the first, and moves nothing.
    at_step(page, "backward done", 1)
    expect(bar(page, 1).locator(".gw-bar-owner")).to_have_text("recorded")
    press(page, "To the start", 1)
    at_step(page, "before step 1", 1)
    prints(page, 2, "5 4.0")
    press(page, "One step back", 0)
    at_step(page, "step 4 of 5", 0)
    prints(page, 2, "4 None")
    at_step(page, "before step 1", 1)


def test_a_widget_closed_midway_leaves_the_partial_state(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "closed",
        "import torch\nfrom gradwalk import GraphWidget\n"
        "a, x = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0))\n"
        "loss = (a * 5) * x.exp()\ng = GraphWidget(loss)\ng",
        "g.run_to('a' if a.grad is None and g.steps[-1].name != 'a' else 'x')\n"
        "held = (a.grad, x.grad)\nprint((a.grad is None) != (x.grad is None))\ng.close()",
        "print(a.grad is held[0], x.grad is held[1])\n"
        "a.grad = x.grad = None\nloss.backward()\n"
        "print(a.grad.item() == (5 * x.exp()).item(), x.grad.item() == (a * 5 * x.exp()).item())",
    )
    press(page, "One step")
    at_step(page, "step 1 of 5")
    run_cell(page, 1)
    assert output_text(page, 1).strip() == "True"
    expect(page.locator(".gradwalk")).to_have_count(0)
    run_cell(page, 2)
    assert output_text(page, 2).split() == ["True"] * 4


def test_two_views_move_together(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "views", EXAMPLE, "g", POSITION)
    run_cell(page, 1)
    expect(page.locator(".gradwalk")).to_have_count(2)
    press(page, "One step", 1)
    for nth in (0, 1):
        at_step(page, "step 1 of 5", nth)
    press(page, "To the end", 0)
    at_step(page, "backward done", 1)
    press(page, "One step back", 1)
    at_step(page, "step 4 of 5", 0)
    prints(page, 2, "4 None")


def test_python_and_the_bar_move_the_same_cursor(watched: Watched, lab: Lab) -> None:
    page = start(
        watched, lab, "python", EXAMPLE, "g.step(3)", "g.cursor = 0", "g.run_to('x')", POSITION
    )
    run_cell(page, 1)
    at_step(page, "step 3 of 5")
    press(page, "One step")
    at_step(page, "step 4 of 5")
    prints(page, 4, "4 None")
    run_cell(page, 2)
    at_step(page, "before step 1 of 5")
    run_cell(page, 3)
    at_step(page, "backward done")
    prints(page, 4, "5 4.0")


def test_the_panel_follows_the_cursor(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "panel", EXAMPLE, POSITION)
    press(page, "One step")
    at_step(page, "step 1 of 5")
    panel = widget(page).locator(".gw-panel")
    bar(page).locator(".gw-link").click()
    expect(panel.locator(".gw-title").first).to_have_text("loss")
    expect(panel.locator(".gw-state")).to_contain_text("running")
    expect(panel).to_contain_text("grad")
    widget(page).get_by_role("button", name="Fit").click()
    wait_until_at_rest(page)
    drawn(page, ".gw-node[data-kind='leaf']").click()
    expect(panel.locator(".gw-title").first).to_have_text("x")
    expect(panel.locator(".gw-state")).to_contain_text("waiting")
    press(page, "To the end")
    expect(panel.locator(".gw-state")).to_contain_text("done")
    shares = panel.locator(".gw-shares tbody tr")
    expect(shares).to_have_count(2)
    expect(shares.nth(0)).to_contain_text("8")
    expect(shares.nth(1)).to_contain_text("\u22124")


def test_the_node_that_runs_is_brought_into_view(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "follow",
        "import torch\nfrom gradwalk import GraphWidget\n"
        "t = torch.ones((), requires_grad=True)\nu = t\n"
        "for _ in range(40):\n    u = u.sin()\ng = GraphWidget(u)\ng",
        "g.step(1)",
    )
    canvas = widget(page).locator(".gw-canvas")

    def is_seen() -> bool:
        outer, inner = canvas.bounding_box(), drawn(page, ".gw-node.is-running").bounding_box()
        if not outer or not inner:
            return False
        return outer["y"] <= inner["y"] and inner["y"] + inner["height"] <= (
            outer["y"] + outer["height"]
        )

    run_cell(page, 1)  # runs to the end and comes back: the picture is not to stay there
    at_step(page, "step 1 of 41")
    eventually(is_seen)
    wait_until_at_rest(page)
    assert is_seen()
    press(page, "To the end")
    at_step(page, "backward done")
    press(page, "To the start")
    press(page, "One step")
    at_step(page, "step 1 of 41")
    eventually(is_seen)
    wait_until_at_rest(page)
    assert is_seen()
    for _ in range(12):
        press(page, "One step")
    at_step(page, "step 13 of 41")
    eventually(is_seen)
    wait_until_at_rest(page)
    assert is_seen()


def test_the_second_notebook_runs_as_it_is_shipped(watched: Watched, lab: Lab) -> None:
    shutil.copy(NOTEBOOKS / "02_step_through_backward.ipynb", lab.folder / "second.ipynb")
    open_notebook(lab, watched.page, "second.ipynb")
    run_all(watched.page)
    expect(watched.page.locator(".gradwalk .gw-bar").first).to_be_attached()
    assert watched.page.locator(".jp-RenderedText[data-mime-type*='stderr']").count() == 0
    assert watched.page.locator(".jp-RenderedText[data-mime-type*='error']").count() == 0
