"""The README: its programs run, and it can be read where it is not beside the repository."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SITE = "https://gradwalk.github.io/gradwalk/"
REPOSITORY = "https://github.com/gradwalk/gradwalk/blob/main/"
RAW = "https://raw.githubusercontent.com/gradwalk/gradwalk/main/"


def test_the_programs_run_in_order() -> None:
    variables: dict[str, Any] = {}
    programs = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(programs) == 2
    for nr, program in enumerate(programs):
        # Lines of a program that is watched are read from its source.
        file = f"README-{nr}.py"
        linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
        exec(compile(program, file, "exec"), variables)
    assert variables["w"].grad == -24


def test_it_fits_on_a_page() -> None:
    words = re.sub(r"https?:[^\s)\"]*|<[^>]*>", "", README).split()
    assert len(words) < 650


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
            assert any(place.exists() for place in places[: 1 + (folder == "tutorials")]), link
