"""Live pages, which compute values and gradients, in Chromium with the network blocked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lab import wait_until_at_rest
from playwright.sync_api import Browser, Page, expect
from torch.nn import functional as F

from gradwalk import GraphWidget, interact, watch, what_if

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"
NAMES = "<img src=x onerror=alert(1)></script>"


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens the text of a page; the test fails on an error, a message, or a request."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_page(text: Any, fragment: str = "", **options: Any) -> Page:
        file = tmp_path / f"page-{len(contexts)}.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or wrong.append(r.url))
        page.goto(file.as_uri() + fragment)
        expect(page.locator(".gw-node").first).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def neuron(**options: Any) -> str:
    """A page of tanh(w * x + b)."""
    w, b = torch.tensor(0.5, requires_grad=True), torch.tensor(-1.0, requires_grad=True)
    x = torch.tensor(2.0)
    with watch():
        h = w * x + b
        out = torch.tanh(h)
    return GraphWidget(out).to_html(live=True, **options)


def expected(w: float, x: float, b: float) -> dict[str, tuple[float, float | None]]:
    """What torch says: name -> value and gradient."""
    leaves = [torch.tensor(each, requires_grad=True) for each in (w, b)]
    h = leaves[0] * x + leaves[1]
    h.retain_grad()
    out = torch.tanh(h)
    out.backward()  # type: ignore[no-untyped-call]
    found: dict[str, tuple[float, float | None]] = {"x": (x, None), "out": (out.item(), 1.0)}
    for name, tensor in (("w", leaves[0]), ("b", leaves[1]), ("h", h)):
        assert tensor.grad is not None
        found[name] = (tensor.item(), tensor.grad.item())
    return found


def values(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("() => gradwalk.values()")
    return found


def agrees(page: Page, w: float, x: float, b: float) -> None:
    """The page computes what torch computes, and the picture shows it."""
    found = values(page)
    for name, (value, grad) in expected(w, x, b).items():
        assert found[name]["value"] == pytest.approx([value], rel=1e-6, abs=1e-7)
        if grad is None:
            assert found[name]["grad"] is None
        else:
            assert found[name]["grad"] == pytest.approx([grad], rel=1e-6, abs=1e-7)
    shown = page.locator(".gw-canvas").inner_text().replace("\u2212", "-")
    numbers = [float(each) for each in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", shown)]
    out = expected(w, x, b)["out"][0]
    assert any(math.isclose(each, out, rel_tol=1e-3, abs_tol=1e-6) for each in numbers), numbers


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_typing_changes_values_gradients_and_picture(
    opened: Callable[..., Page], scheme: str
) -> None:
    page = opened(neuron(), color_scheme=scheme)
    agrees(page, 0.5, 2.0, -1.0)
    page.get_by_label("w", exact=True).fill("-0.25")
    page.get_by_label("x", exact=True).fill("1.5")
    agrees(page, -0.25, 1.5, -1.0)
    page.get_by_label("x", exact=True).fill("one")
    expect(page.get_by_label("x", exact=True)).to_have_attribute("aria-invalid", "true")
    agrees(page, -0.25, 1.5, -1.0)
    page.get_by_label("Reset the numbers").click()
    agrees(page, 0.5, 2.0, -1.0)


def test_dragging_a_number_and_a_slider(opened: Callable[..., Page]) -> None:
    page = opened(neuron())
    field = page.get_by_label("w", exact=True)
    box = field.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    for by in range(25, 80, 5):
        page.mouse.move(box["x"] + by, box["y"] + 10)
    page.mouse.up()
    w = values(page)["w"]["value"][0]
    assert w > 0.5
    agrees(page, w, 2.0, -1.0)
    page.locator(".gw-live-slider").last.fill("-1.5")
    x = values(page)["x"]["value"][0]
    assert x == pytest.approx(-1.5, abs=0.05)  # on the slider's grid
    agrees(page, w, x, -1.0)
    before = [each.bounding_box() for each in page.locator(".gw-node").all()]
    inner = page.locator(".gw-number-input").first
    inner.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    assert values(page)["w"]["value"][0] > w
    assert [each.bounding_box() for each in page.locator(".gw-node").all()] == before


def test_scripts_set_and_read(opened: Callable[..., Page]) -> None:
    page = opened(neuron())
    page.evaluate("() => gradwalk.set('w', [2])")
    agrees(page, 2.0, 2.0, -1.0)
    wrong = page.evaluate("() => gradwalk.set('v', [2]).catch(String)")
    assert "v, which is not an input. It is one of w, b, x" in wrong
    assert "2 numbers for w, which has 1" in page.evaluate(
        "() => gradwalk.set('w', [1, 2]).catch(String)"
    )


def test_a_link_keeps_the_numbers(opened: Callable[..., Page]) -> None:
    text = neuron()
    page = opened(text)
    page.get_by_label("w", exact=True).fill("1.25")
    page.wait_for_function("() => location.hash === '#w=1.25'")
    other = opened(text, page.evaluate("location.hash"))
    agrees(other, 1.25, 2.0, -1.0)
    other.evaluate("() => { location.hash = '#b=0.5&v=1&w=x' }")
    other.wait_for_function("async () => (await gradwalk.values()).b.value[0] === 0.5")
    agrees(other, 0.5, 2.0, 0.5)


def test_another_branch_is_grey_and_says_so(opened: Callable[..., Page]) -> None:
    def program(w: torch.Tensor) -> torch.Tensor:
        return w * 3 if w > 0 else w * 2

    page = opened(interact(program, w=2.0).to_html())
    root = page.locator(".gradwalk")
    page.get_by_label("w", exact=True).fill("-1")
    expect(page.locator(".gw-live-note")).to_contain_text(
        "The program takes another branch here; run it in Python."
    )
    expect(page.locator(".gw-live-note")).to_contain_text("test_live_page.py")
    expect(root).to_have_class(re.compile("gw-elsewhere"))
    assert "another branch" in page.evaluate("() => gradwalk.values().catch(String)")
    page.get_by_label("w", exact=True).fill("2")
    expect(root).not_to_have_class(re.compile("gw-elsewhere"))
    assert values(page)["output"]["value"] == [6.0]


def test_the_keyboard_alone_is_enough(opened: Callable[..., Page]) -> None:
    page = opened(neuron())
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == "w":
            break
    page.keyboard.press("ArrowUp")
    assert values(page)["w"]["value"][0] > 0.5
    page.keyboard.press("Control+A")
    page.keyboard.type("1.5")
    agrees(page, 1.5, 2.0, -1.0)
    for _ in range(6):
        page.keyboard.press("Tab")
        if "Update" in (page.evaluate("document.activeElement.getAttribute('aria-label')") or ""):
            break
    page.keyboard.press("Enter")
    assert values(page)["w"]["value"][0] < 1.5


def test_names_inject_nothing(opened: Callable[..., Page]) -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    with watch():
        out = (w * 2).sum()
    page = opened(GraphWidget(out, names={NAMES: w}).to_html(live=True))
    expect(page.get_by_label(f"{NAMES}[0]", exact=True)).to_be_visible()
    page.get_by_label(f"{NAMES}[0]", exact=True).fill("3")
    page.get_by_label("Update the leaves").click()
    page.get_by_text("Check gradients").click()
    page.locator("[data-kind=leaf]").first.click(position={"x": 5, "y": 5})
    assert page.locator("img").count() == 0
    assert values(page)[NAMES]["grad"] == [2.0, 2.0]


@pytest.mark.parametrize("quiz", [None, "grad"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Callable[..., Page], scheme: str, quiz: str | None) -> None:
    page = opened(neuron(quiz=quiz), color_scheme=scheme, reduced_motion="reduce")
    if quiz is None:
        page.get_by_label("Update the leaves").click()
        page.get_by_text("Check gradients").click()
    wait_until_at_rest(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({ include: [['.gradwalk']] })")
    assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []


def test_edits_of_gradients_do_what_torch_says(opened: Callable[..., Page]) -> None:
    def program(w: torch.Tensor) -> torch.Tensor:
        h = w * x
        return h + torch.tanh(h)

    x = torch.tensor(0.5)
    w = torch.tensor(2.0, requires_grad=True)
    with watch():
        h = w * x
        out = h + torch.tanh(h)
    page = opened(GraphWidget(out).to_html(live=True))
    page.evaluate("() => gradwalk.set('w', [1])")
    other = torch.tensor(1.0, requires_grad=True)
    page.locator(".gw-node", has=page.get_by_text("h", exact=True)).click()
    edges = page.locator(".gw-edge-list li")
    after = page.locator(".gw-what-if table tbody tr").first.locator("td").nth(1)
    grads = {
        "Cut": what_if(program(other), cut=[(0, 0)]).after,
        "Factor": what_if(program(other), scale={(0, 0): 3.0}).after,
        "instead": what_if(program(other), replace={(0, 0): torch.tensor(-2.0)}).after,
    }
    direct = edges.filter(has_text="out →").first
    for kind, found in grads.items():
        (grad,) = found.values()
        assert grad is not None
        if kind == "Cut":
            direct.get_by_label("Cut").click()
        else:
            field = direct.get_by_label("Factor" if kind == "Factor" else "instead of the gradient")
            field.fill("3" if kind == "Factor" else "-2")
            field.press("Enter")
        expect(after).to_have_text(f"{grad.item():.4g}".replace("-", "\u2212"))


def test_updates_draw_a_curve_and_learn(opened: Callable[..., Page]) -> None:
    torch.manual_seed(3)
    xs = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    ys = torch.tensor([[0.0], [1], [1], [0]])
    w1, b1 = torch.randn(2, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    w2, b2 = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    with watch():
        pred = torch.sigmoid(torch.tanh(xs @ w1 + b1) @ w2 + b2)
        loss = F.mse_loss(pred, ys)
    page = opened(GraphWidget(loss).to_html(live=True))
    page.get_by_label("learning rate").fill("1")
    page.get_by_label("Update the leaves").click()
    leaves = [w1, b1, w2, b2]
    grads = torch.autograd.grad(loss, leaves)
    after = values(page)
    for name, leaf, grad in zip(("w1", "b1", "w2", "b2"), leaves, grads, strict=True):
        assert after[name]["value"] == pytest.approx((leaf - grad).flatten().tolist(), rel=1e-5)
    expect(page.locator(".gw-live-loss")).to_contain_text("after 1 update")
    repeat = page.get_by_label("Repeat the update")
    repeat.click()
    page.wait_for_function("async () => (await gradwalk.values()).loss.value[0] < 0.05")
    repeat.click()
    assert page.locator(".gw-live-loss polyline").get_attribute("points")


def test_finite_differences_are_beside_the_gradients(opened: Callable[..., Page]) -> None:
    page = opened(neuron())
    page.get_by_text("Check gradients").click()
    shown = page.locator(".gw-difference")
    expect(shown).to_have_count(2)
    page.evaluate("() => gradwalk.set('w', [1])")
    expect(shown.filter(has_text="Δout/Δw")).to_contain_text(
        f"{expected(1.0, 2.0, -1.0)['w'][1]:.4f}"
    )
    expect(page.locator(".gw-difference.is-off")).to_have_count(0)


def test_an_image_is_drawn_on(opened: Callable[..., Page]) -> None:
    image, k = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 2, 2, requires_grad=True)
    with watch():
        out = F.conv2d(image, k).sum()
    page = opened(GraphWidget(out).to_html(live=True))
    canvas = page.locator("canvas.gw-live-image")
    box = canvas.bounding_box()
    assert box is not None
    side = box["width"] / 8
    page.mouse.move(box["x"] + 2.5 * side, box["y"] + 3.5 * side)
    page.mouse.down()
    page.mouse.move(box["x"] + 3.5 * side, box["y"] + 3.5 * side)
    page.mouse.up()
    found = values(page)
    assert [i for i, one in enumerate(found["image"]["value"]) if one] == [26, 27]
    assert found["out"]["value"] == [8.0]
    assert found["k"]["grad"] == [2.0, 2.0, 2.0, 2.0]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert values(page)["image"]["value"][35] == 1
    page.get_by_label("Clear image").click()
    assert values(page)["out"]["value"] == [0.0]


@pytest.mark.parametrize("what", ["grad", "value"])
def test_a_quiz_hides_its_answers_until_they_are_revealed(
    opened: Callable[..., Page], what: str
) -> None:
    text = neuron(quiz=what)
    page = opened(text)
    asked = ["w", "b", "h"] if what == "grad" else ["h", "out"]
    for numbers in ((0.5, 2.0), (0.75, 1.25)):
        page.evaluate(
            "([w, x]) => gradwalk.set('w', [w]).then(() => gradwalk.set('x', [x]))", numbers
        )
        found = values(page)
        truth = expected(*numbers, -1.0)
        assert all(found[name][what] is None for name in asked)
        seen = page.locator("body").inner_text()
        for name in asked:
            number = truth[name][0 if what == "value" else 1]
            assert number is not None
            if len(f"{number:.4g}") > 3:
                assert f"{number:.4g}".removeprefix("-") not in seen
                assert f"{number:.4g}" not in text.partition("<script>")[0]
    expect(page.get_by_label("Update the leaves")).to_be_hidden()
    first = page.get_by_label(f"{what} of h")
    first.fill("17")
    first.press("Enter")
    expect(first).to_have_class(re.compile("is-wrong"))
    value, grad = expected(0.75, 1.25, -1.0)["h"]
    first.fill(f"{value if what == 'value' else grad:.4g}")
    first.press("Enter")
    expect(page.locator(".gw-quiz")).to_contain_text("1 of")
    page.get_by_text("Reveal all").click()
    page.evaluate("() => gradwalk.set('w', [0.75])")
    assert all(values(page)[name][what] is not None for name in asked)
    expect(page.get_by_label("Update the leaves")).to_be_visible()


def test_a_phone_scrolls_down_only(opened: Callable[..., Page]) -> None:
    page = opened(neuron(), viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("w", exact=True).tap()
    page.get_by_label("w", exact=True).fill("1")
    agrees(page, 1.0, 2.0, -1.0)
