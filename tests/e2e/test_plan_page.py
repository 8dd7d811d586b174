"""The page of a plan in Chromium: its curve by pointer and keys, its colours, and accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import wait_until_at_rest
from planned_steps import Decoder, next_tokens, tokens
from playwright.sync_api import Browser, Page, expect

from gradwalk import plan
from gradwalk.results import Plan

AXE = Path(__file__).parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan(Decoder(blocks=4, inner=(64,)), tokens(2, 24), loss=next_tokens)


@pytest.fixture(params=["light"])
def page(
    request: pytest.FixtureRequest, browser: Browser, planned: Plan, tmp_path: Path
) -> Iterator[Page]:
    planned.to_html(tmp_path / "plan.html")
    context = browser.new_context(offline=True, color_scheme=request.param)
    opened, wrong = context.new_page(), []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text))
    opened.goto((tmp_path / "plan.html").as_uri())
    expect(opened.locator(".gw-plan-chart")).to_be_visible()
    yield opened
    context.close()
    assert wrong == []


def test_the_curve_begins_at_the_peak_and_leads_to_its_node(page: Page, planned: Plan) -> None:
    chart, words = page.get_by_role("slider", name="Live memory"), page.locator(".gw-plan-words")
    expect(words).to_contain_text("the peak")
    expect(words).to_contain_text(f"node {planned.at.node}")
    chart.press("Enter")
    expect(page.locator(".gw-title")).to_have_text(planned.at.op)
    chart.press("Home")
    expect(words).to_contain_text("forward")
    chart.press("End")
    expect(words).to_contain_text("backward")
    wait_until_at_rest(page)
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 10)
    expect(words).to_contain_text("forward")


def test_boxes_are_coloured_by_flops_and_by_memory(page: Page) -> None:
    colour = page.get_by_role("combobox", name="colour", exact=False).first
    for mode in ("overlay FLOPs, planned", "memory"):
        colour.select_option(mode)
        expect(page.locator("[class*='is-c']").first).to_be_visible()
        # The last of the four blocks is open.
        expect(page.locator(".gw-strip-fill")).to_have_count(3)


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_the_curve_is_accessible(page: Page) -> None:
    wait_until_at_rest(page)
    page.evaluate(AXE.read_text())  # the page's own policy forbids other scripts
    found = page.evaluate("axe.run('.gw-plan')")
    assert found["violations"] == []
