"""The TypeScript types of the schema are generated from Python."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from anywidget import AnyWidget

from gradwalk import GraphWidget
from gradwalk.results import CompareWidget
from gradwalk.schema.traits import CompareTraits, Traits

ROOT = Path(__file__).parents[2]
WRITER = ROOT / "tools" / "wire_types.py"


def copied(tmp_path: Path) -> Path:
    """The sources and what is written from them, in a folder of their own."""
    for part in ("tools/wire_types.py", "js/wire/generated.ts"):
        (tmp_path / part).parent.mkdir(parents=True)
        shutil.copy(ROOT / part, tmp_path / part)
    folder = Path("src/gradwalk")
    for part in ("schema", "graph"):
        shutil.copytree(ROOT / folder / part, tmp_path / folder / part)
    return tmp_path


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "wire_types.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_generated_types_are_up_to_date():
    checked = run(ROOT, "--check")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "written"),
    [
        ("schema/graph.py", "    op: str\n", "    op: str | None\n", "  op: string | null;"),
        ("schema/graph.py", "    op: str\n", "    op: str\n    cost: float\n", "  cost: number;"),
        ("schema/graph.py", "class RootModel", "class OutputRoot", "interface OutputRoot {"),
        ("schema/values.py", '"leaf", "op"', '"leaf", "operation"', 'Kind = "leaf" | "operation"'),
        ("graph/labels.py", '"LiftBackward0"', '"LowerBackward0"', '"LowerBackward0"'),
    ],
)
def test_a_change_is_detected_and_written(tmp_path, file, old, new, written):
    root = copied(tmp_path)
    assert run(root, "--check").returncode == 0
    source = root / "src" / "gradwalk" / file
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new), encoding="utf-8")
    checked = run(root, "--check")
    assert checked.returncode == 1
    assert "Run `make types`" in checked.stderr
    assert run(root).returncode == 0
    assert written in (root / "js" / "wire" / "generated.ts").read_text(encoding="utf-8")
    assert run(root, "--check").returncode == 0


def test_a_docstring_becomes_a_comment(tmp_path):
    root = copied(tmp_path)
    source = root / "src" / "gradwalk" / "schema" / "graph.py"
    added = '    op: str\n    cost: list[int | None]\n    """Of ``op``; None if free."""\n'
    source.write_text(source.read_text(encoding="utf-8").replace("    op: str\n", added))
    assert run(root).returncode == 0
    text = (root / "js" / "wire" / "generated.ts").read_text(encoding="utf-8")
    assert "  /** Of `op`; null if free. */\n  cost: (number | null)[];\n" in text


def test_a_type_without_a_counterpart_is_refused():
    spec = importlib.util.spec_from_file_location("wire_types", WRITER)
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    with pytest.raises(ValueError, match=r"'set\[int\]' has no counterpart in TypeScript"):
        writer.in_typescript(writer.ast.parse("set[int]", mode="eval").body)


@pytest.mark.parametrize(
    ("widget", "traits"),
    [(GraphWidget, Traits), (CompareWidget, CompareTraits)],
)
def test_the_traits_of_a_widget_are_those_of_the_wire(widget, traits):
    shared = widget.class_traits(sync=True).keys() - AnyWidget.class_traits(sync=True).keys()
    of_anywidget = {"_esm", "_css", "_anywidget_id"}
    assert shared - of_anywidget == get_type_hints(traits).keys()
