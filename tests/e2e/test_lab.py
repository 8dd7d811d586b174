"""Reading and using a graph in JupyterLab, in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

from bar import prints
from lab import (
    Lab,
    Watched,
    eventually,
    open_notebook,
    output_text,
    run_all,
    run_cell,
    save,
    set_theme,
)
from playwright.sync_api import Locator, Page, expect

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

LINEAR = """\
import torch
from gradwalk import GraphWidget
x = torch.tensor([1.0], requires_grad=True)
w = torch.tensor([4.0], requires_grad=True)
b = torch.tensor([0.5], requires_grad=True)
h = w * x + b
g = GraphWidget(h)
g"""


def start(watched: Watched, lab: Lab, name: str, *cells: str) -> Page:
    """Open a notebook of these cells and run the first."""
    open_notebook(lab, watched.page, lab.write(f"{name}.ipynb", *cells))
    run_cell(watched.page, 0)
    return watched.page


def widget(page: Page, nth: int = 0) -> Locator:
    return page.locator(".gradwalk").nth(nth)


def node(page: Page, node_id: int, nth: int = 0) -> Locator:
    return widget(page, nth).locator(f"[data-node='{node_id}']").first


def test_the_first_notebook_runs_as_it_is_shipped(watched: Watched, lab: Lab) -> None:
    shutil.copy(NOTEBOOKS / "01_first_graph.ipynb", lab.folder / "first.ipynb")
    page = watched.page
    open_notebook(lab, page, "first.ipynb")
    run_all(page)
    expect(page.locator(".gradwalk")).to_have_count(6)
    for name in ("w", "x", "b", "h", "MulBackward0", "AddBackward0"):
        expect(widget(page).get_by_text(name, exact=True).first).to_be_attached()
    assert page.locator(".jp-RenderedText[data-mime-type*='stderr']").count() == 0


def test_loaded_once_it_watches_every_cell(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "loaded",
        "%load_ext gradwalk",
        LINEAR.replace("w * x + b", "(w * x + b).exp().log()"),
        "torch.nn.Linear(10, 5)(w)",
        "import gradwalk\ngradwalk.last_failure()",
    )
    run_cell(page, 1)
    node(page, 2).click()
    panel = widget(page).locator(".gw-panel")
    expect(panel).to_contain_text("h = (w * x + b).exp().log()")
    run_cell(page, 2)
    assert "gradwalk" not in output_text(page, 2)
    run_cell(page, 3)
    expect(widget(page, 1)).to_contain_text("backward cannot run")
    assert "Linear failed at Cell In[" in output_text(page, 3)


def test_a_click_explains_a_node_and_backward_updates_it(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "click", LINEAR, "h.backward()", "print(w.grad.item(), g.selected)")
    panel = widget(page).locator(".gw-panel")
    node(page, 3).click()
    expect(panel.locator(".gw-title").first).to_have_text("w")
    expect(panel).to_contain_text("leaf")
    expect(panel).to_contain_text("no backward pass has added to w.grad")
    expect(widget(page).locator(".gw-bar-text")).to_contain_text("No backward yet")

    run_cell(page, 1)  # the widget above updates by itself
    expect(panel).not_to_contain_text("no backward pass has added to w.grad")
    expect(widget(page).locator(".gw-bar-text")).to_contain_text("backward done · 5 steps")
    run_cell(page, 2)
    grad, selected = output_text(page, 2).split()
    assert selected == "3"
    section = panel.locator("[data-section='grad']")
    expect(section).to_contain_text(grad)
    expect(panel.locator(".gw-cell.is-stored")).to_contain_text(f"[{float(grad):g}]")


def test_selecting_from_python_and_by_click_are_the_same(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "select", LINEAR, "g.selected = 1", "print(g.selected)")
    panel = widget(page).locator(".gw-panel")
    run_cell(page, 1)
    expect(panel.locator(".gw-title").first).to_have_text("MulBackward0")
    expect(panel).to_contain_text("mul.Tensor(Tensor self, Tensor other)")
    panel.get_by_role("button", name="x").first.click()  # an input of the node
    expect(panel.locator(".gw-title").first).to_have_text("x")
    prints(page, 2, "4")


def test_the_keyboard_walks_the_graph_and_the_notebook_does_not_notice(
    watched: Watched, lab: Lab
) -> None:
    page = start(watched, lab, "keys", LINEAR, "print(g.selected is not None)")
    expect(node(page, 0)).to_be_visible()
    cells = page.locator(".jp-Notebook-cell").count()
    canvas = widget(page).locator(".gw-canvas")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(widget(page).locator(".gw-title").first).not_to_have_text("Autograd graph")
    expect(widget(page).locator(".gw-title").first).to_be_visible()
    for key in ("a", "b", "d", "d", "x", "f"):  # in Lab's command mode these change the notebook
        page.keyboard.press(key)
    page.keyboard.press("/")
    search = widget(page).locator(".gw-search-field")
    expect(search).to_be_focused()
    page.keyboard.type("mul")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.locator(".jp-Notebook-cell").count() == cells
    prints(page, 1, "True")


def test_tab_reaches_the_graph_with_a_visible_focus(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "tab", LINEAR)
    expect(node(page, 0)).to_be_visible()
    widget(page).get_by_role("button", name="Find", exact=True).click()
    for _ in range(16):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('gw-canvas')"):
            break
    canvas = widget(page).locator(".gw-canvas")
    expect(canvas).to_be_focused()
    style = canvas.evaluate(
        "e => { const s = getComputedStyle(e); return s.outline + s.boxShadow; }"
    )
    assert "none" not in style or "px" in style


def test_search_counts_and_highlights(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "search", LINEAR)
    widget(page).get_by_role("button", name="Find", exact=True).click()
    search = widget(page).locator(".gw-search-field")
    search.fill("backward")
    expect(widget(page).get_by_role("option")).to_have_count(2)
    search.press("Enter")
    expect(widget(page)).to_contain_text("1 of 2")
    search.fill("nothing like this")
    expect(widget(page)).to_contain_text("no match")


def test_markup_in_a_name_is_text(watched: Watched, lab: Lab) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    page = start(
        watched,
        lab,
        "hostile",
        "import torch\nfrom gradwalk import GraphWidget\n"
        "t = torch.ones(2, requires_grad=True)\n"
        f"g = GraphWidget(t * 2, names={{{hostile!r}: t}})\ng",
        "g.selected = 1",
    )
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    run_cell(page, 1)
    expect(widget(page).locator(".gw-title").first).to_have_text(hostile)
    node(page, 1).hover()
    expect(widget(page)).to_contain_text(hostile)
    assert widget(page).locator("img").count() == 0
    assert dialogs == []


def test_the_theme_is_the_hosts(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "theme", LINEAR)
    for theme in ("Dark", "Light"):
        set_theme(page, f"JupyterLab {theme}")
        expect(widget(page)).to_have_attribute("data-theme", theme.lower())
        title = node(page, 1).locator("text").first
        background = page.evaluate(
            "getComputedStyle(document.querySelector('.gradwalk')).backgroundColor"
        )
        assert title.evaluate("e => getComputedStyle(e).fill") != background


def test_an_operand_without_grad_is_a_stub_and_a_scalar_shows_its_number(
    watched: Watched, lab: Lab
) -> None:
    page = start(
        watched,
        lab,
        "stub",
        "import torch\nfrom gradwalk import GraphWidget\n"
        "t = torch.tensor(3.0, requires_grad=True)\nGraphWidget(t + 2)",
    )
    expect(widget(page).locator(".gw-stub")).to_have_text("constant")
    expect(node(page, 1)).to_contain_text("3")


def test_two_views_of_one_widget_follow_each_other_and_close_together(
    watched: Watched, lab: Lab
) -> None:
    page = start(watched, lab, "views", LINEAR, "g", "g.close()", "g")
    run_cell(page, 1)
    expect(page.locator(".gradwalk")).to_have_count(2)
    node(page, 2, nth=1).click()
    for nth in (0, 1):
        expect(widget(page, nth).locator(".gw-title").first).to_have_text("b")
    run_cell(page, 2)
    expect(page.locator(".gradwalk")).to_have_count(0)
    run_cell(page, 3)
    assert "closed: make a new one" in output_text(page, 3)


def test_running_a_cell_again_frees_the_graph_it_replaces(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "rerun",
        "import gc, torch, weakref\nfrom gradwalk import GraphWidget\nseen = []",
        # The product saves its input, this very tensor, so only a graph that is freed lets it go.
        "t = torch.ones(300_000, requires_grad=True)\nu = t.exp()\nseen.append(weakref.ref(u))\n"
        "v = (u * u).sum()\ndel u\nGraphWidget(v)",
        "gc.collect()\nprint([ref() is not None for ref in seen])",
    )
    for _ in range(3):
        run_cell(page, 1)
        expect(page.locator(".gradwalk")).to_have_count(1)
    prints(page, 2, "[False, False, True]")


def test_a_variable_keeps_its_widget_when_the_cell_runs_again(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "kept",
        "import torch\nfrom gradwalk import GraphWidget\nkept = []",
        "t = torch.ones(2, requires_grad=True)\nkept.append(GraphWidget(t * 2))\nkept[-1]",
        "print([repr(each) for each in kept])",
    )
    run_cell(page, 1)
    run_cell(page, 1)
    run_cell(page, 2)
    assert "closed" not in output_text(page, 2)


def test_a_reloaded_page_finds_the_widget_again(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "reload", LINEAR)
    expect(node(page, 0)).to_be_visible()
    save(page)
    page.reload()
    page.wait_for_selector(".gradwalk")
    node(page, 3).click()
    expect(widget(page).locator(".gw-title").first).to_have_text("w")


def test_bad_input_is_a_sentence_under_the_cell(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "bad",
        "import torch\nfrom gradwalk import GraphWidget",
        "GraphWidget(torch.ones(2))",
    )
    run_cell(page, 1)
    text = output_text(page, 1)
    assert "ValueError" in text
    assert "requires_grad=False" in text
    expect(page.locator(".gradwalk")).to_have_count(0)


def test_every_direction_is_drawn_and_can_be_chosen(watched: Watched, lab: Lab) -> None:
    page = start(watched, lab, "directions", LINEAR, "print(g.direction)")
    widget(page).get_by_role("button", name="Legend and keys").click()
    for direction, axis, sign in (
        *(("up", "y", -1), ("right", "x", 1)),
        *(("left", "x", -1), ("down", "y", 1)),
    ):
        widget(page).locator(".gw-direction-choice").select_option(direction)

        def goes_there(axis: str = axis, sign: int = sign) -> bool:
            top, bottom = node(page, 0).bounding_box(), node(page, 1).bounding_box()
            return bool(top and bottom) and (bottom[axis] - top[axis]) * sign > 0

        eventually(goes_there)
        prints(page, 1, direction)


def test_a_model_of_two_thousand_nodes_opens_and_is_found_in(watched: Watched, lab: Lab) -> None:
    page = start(
        watched,
        lab,
        "large",
        "import torch\nfrom torch import nn\nfrom gradwalk import GraphWidget\n"
        "layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)\n"
        "model = nn.TransformerEncoder(layer, 24)\n"
        "loss = model(torch.randn(2, 5, 16)).mean()\ng = GraphWidget(loss)\n"
        "g",
        "print(len(g.model['nodes']))",
    )
    expect(widget(page)).to_contain_text("loss")
    search = widget(page).locator(".gw-search-field")
    search.fill("layers.23.linear1.weight")
    search.press("Enter")
    expect(widget(page)).to_contain_text("1 of 1")
    run_cell(page, 1)
    assert int(output_text(page, 1)) > 1500
