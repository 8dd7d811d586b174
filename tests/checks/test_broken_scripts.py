"""What is wrong with a script is found by the README's recipe; a healthy one has notes alone."""

from __future__ import annotations

import linecache
import warnings
from pathlib import Path
from typing import Any

import broken_domains  # noqa: F401  its scripts stand in BROKEN, too
import broken_mechanisms  # noqa: F401
import broken_steps  # noqa: F401
import forum_copies  # noqa: F401
import forum_machinery  # noqa: F401
import forum_scripts  # noqa: F401
import healthy_domains  # noqa: F401
import healthy_habits  # noqa: F401  its scripts stand in HEALTHY, too
import healthy_methods  # noqa: F401
import healthy_styles  # noqa: F401
import healthy_training  # noqa: F401
import pytest
from broken_scripts import BROKEN, Broken
from healthy_scripts import HEALTHY

from gradwalk.checks.finding import Finding

RECIPE = """
import contextlib
from gradwalk import GraphWidget, watch
with watch() if watched else contextlib.nullcontext():
    loss = step()
widget = GraphWidget(loss)
with contextlib.suppress(RuntimeError):
    widget.backward()
{after}
found = widget.diagnose(optimizer=globals().get("optimizer"))
widget.close()
"""


def findings_of(script: Broken, folder: Path) -> list[Finding]:
    """What is found in a script, which is run from a file of its own."""
    file = folder / "train.py"
    file.write_text(script.source, encoding="utf-8")
    linecache.checkcache(str(file))
    space: dict[str, Any] = {"watched": script.watched}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(script.source, str(file), "exec"), space)
        exec(RECIPE.format(after=script.after), space)
    found: list[Finding] = space["found"]
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(name: str, tmp_path: Path) -> None:
    script = BROKEN[name]
    found = findings_of(script, tmp_path)
    about = [finding for finding in found if finding.kind in script.kinds]
    assert len(about) == 1, found
    message = about[0].message
    for word in script.words:
        assert word in message, message
    lines = script.source.splitlines()
    wanted = [f"train.py:{i}" for i, line in enumerate(lines, 1) if line.endswith("# HERE")]
    for line in wanted:
        assert line in message, message
    alarms = [
        f for f in found if f.severity != "info" and f.kind not in (*script.kinds, *script.also)
    ]
    assert not alarms, alarms


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_script_has_notes_alone(name: str, watched: bool, tmp_path: Path) -> None:
    script = Broken((), (), HEALTHY[name], watched=watched)
    assert {finding.severity for finding in findings_of(script, tmp_path)} <= {"info"}
