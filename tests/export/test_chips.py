"""Where the picture writes its numbers: `js/testing/chips.ts` on every example of the gallery.

Random graphs are held to the same law by the front end's own tests.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from examples import EXAMPLES, Example

pytestmark = pytest.mark.one_python

JS = Path(__file__).resolve().parents[2] / "js"
WIDTHS = [1366, 766]
"""Of the pages that pictures are made for, px."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that looks at the places of numbers."""
    program = tmp_path_factory.mktemp("chips") / "chips.mjs"
    called = """
        import { readFileSync } from "node:fs";
        import { chipsOf } from "./testing/chips_of_graphs.ts";
        process.stdout.write(JSON.stringify(chipsOf(JSON.parse(readFileSync(0, "utf8")))));
    """
    builder = JS / "node_modules" / "esbuild" / "bin" / "esbuild"
    asked = ["--bundle", "--format=esm", "--platform=node", "--log-level=error"]
    asked.append(f"--outfile={program}")
    subprocess.run([builder, *asked], cwd=JS, input=called, text=True, check=True)
    return program


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_number_is_at_its_own_arrow_and_covers_nothing(
    example: Example, places: Path
) -> None:
    with closing(example.shown(watched=True)) as widget:
        given = {
            "graph": widget.model,
            "steps": widget._steps,
            "run": widget.run,
            "widths": WIDTHS,
        }
    done = subprocess.run(
        ["node", places], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert len(found) == 2 * len(WIDTHS)
    assert [each for each in found if each["faults"]] == []
    assert any(each["numbers"] for each in found)
