"""A notebook that was run and saved, without a kernel afterwards."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import (
    GRAPH,
    NOTEBOOK_KNOWN,
    RECORD,
    commands,
    notebook,
    offline_page,
    run_commands,
)
from lab import Lab, run_all, running_lab, save
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.full

# "Save Widget State Automatically" in the menu "Settings".
SAVES_STATE = {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}}


@pytest.fixture(scope="module")
def fresh_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("saved-notebooks"), SAVES_STATE) as running:
        yield running


@pytest.fixture(scope="module")
def saved(browser: Browser, fresh_lab: Lab) -> Path:
    """Run in Notebook 7 and saved there, with the widgets' state."""
    name = fresh_lab.write("saved.ipynb", f"{GRAPH}\n{RECORD}\ng")
    file = fresh_lab.folder / name
    with notebook(browser, fresh_lab, name) as page:
        run_all(page)
        expect(page.locator(".gw-node").first).to_be_visible()
        save(page)
    assert "widgets" in json.loads(file.read_text(encoding="utf-8"))["metadata"]
    return file


@pytest.mark.parametrize("place", ["notebooks", "doc/tree"])
def test_it_is_shown_again_without_running(
    browser: Browser, fresh_lab: Lab, saved: Path, place: str
) -> None:
    with offline_page(browser, NOTEBOOK_KNOWN) as page:
        page.goto(f"{fresh_lab.url}/{place}/{saved.name}?token={fresh_lab.token}")
        drawn = page.locator(".gradwalk .gw-node")
        expect(drawn.first).to_be_visible()
        drawn.filter(has_text="( )²").click()
        expect(page.locator(".gw-title")).to_have_text("PowBackward0")
        page.get_by_role("button", name="One step", exact=True).click()
        expect(page.locator(".gw-bar-text")).to_contain_text("step 1 of 7")
        expect(page.locator(".gw-fault")).to_have_count(0)
    fresh_lab.stop_kernels()


def test_without_the_widgets_state_a_page_shows_the_picture(
    browser: Browser, saved: Path, tmp_path: Path
) -> None:
    content = json.loads(saved.read_text(encoding="utf-8"))
    del content["metadata"]["widgets"]
    (tmp_path / "notebook.ipynb").write_text(json.dumps(content), encoding="utf-8")
    run_commands(tmp_path, commands("picture"))
    with offline_page(browser, ("cdnjs.cloudflare.com", "unpkg.com", "require")) as page:
        page.goto((tmp_path / "notebook.html").as_uri())
        picture = page.get_by_role("img")
        expect(picture).to_be_visible()
        kind, _, content = (picture.get_attribute("src") or "").partition(",")
        assert kind == "data:image/svg+xml;base64"
        drawn = base64.b64decode(content).decode()
        assert all(f">{name}<" in drawn for name in ("loss", "w", "x", "b", "h", "PowBackward0"))
        assert picture.evaluate("img => img.naturalWidth") > 100
