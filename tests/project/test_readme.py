"""The README: its programs run, and it can be read where it is not beside the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from notebook_cells import open_notebook

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SITE = "https://gradwalk.github.io/gradwalk/"
REPOSITORY = "https://github.com/gradwalk/gradwalk/blob/main/"
RAW = "https://raw.githubusercontent.com/gradwalk/gradwalk/main/"


def test_the_programs_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As cells of a notebook, which they are: the first one watches them."""
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(programs) == 2
    with open_notebook(tmp_path, monkeypatch) as notebook:
        widget = notebook.run(programs[0])
        assert [node["value"] for node in widget.model["nodes"][:4]] == [36.0, -6.0, -5.0, -6.0]
        assert {node["name"] for node in widget.model["nodes"]} >= {"w", "b", "pred", "loss"}
        notebook.run(programs[1])
        assert notebook["w"].grad == -24


def test_it_fits_on_a_page() -> None:
    assert len(README.split()) <= 600  # as `wc -w` counts


def test_the_film_comes_first() -> None:
    """After the name and two sentences; then how to start."""
    start = README.index("```sh\npip install gradwalk")
    assert README.index("moving-light.webp") < README.index("[![CI]") < start
    assert start < README.index("%load_ext gradwalk") < README.index("GraphWidget(loss)      #")


def test_what_it_says_of_torch_is_what_pip_does() -> None:
    (oldest,) = re.findall(r"replaces\*\* torch if yours is older than ([\d.]+)", README)
    assert f'"torch>={oldest}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_every_link_and_picture_is_absolute_and_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)]*)\)|(?:src|srcset)=\"([^\"]*)\"", README)
    for link in (a or b for a, b in links):
        assert link.startswith("https://"), link
        for start in (REPOSITORY, RAW):
            if link.startswith(start):
                assert (ROOT / link.removeprefix(start)).exists(), link
        if link.startswith(SITE) and link != SITE:
            page = link.removeprefix(SITE).removesuffix(".html")
            folder, _, name = page.rpartition("/")
            places = [ROOT / "docs" / f"{page}.md", ROOT / "notebooks" / f"{name}.ipynb"]
            is_page = any(place.exists() for place in places[: 1 + (folder == "tutorials")])
            assert is_page or page == "gallery", link  # which is written when the site is built
