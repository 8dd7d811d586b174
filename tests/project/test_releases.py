"""README, docs, conda recipe, constraints and workflow name the same releases of torch."""

from __future__ import annotations

import re
from pathlib import Path

from gradwalk.torch_api.capability import NEWEST, OLDEST

ROOT = Path(__file__).parents[2]


def found(pattern: str, file: str) -> list[str]:
    return re.findall(pattern, (ROOT / file).read_text("utf-8"))


def minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def test_the_oldest_torch_is_the_same_everywhere():
    (oldest,) = found(r'"torch>=([\d.]+)"', "pyproject.toml")
    assert found(r"- pytorch >=([\d.]+)", "conda/meta.yaml") == [oldest]
    assert found(r"torch (\d+\.\d+), or newer", "README.md") == [oldest]
    assert minor(releases()[0]) == oldest == OLDEST


def test_the_tested_releases_are_the_same_everywhere():
    (words,) = found(r"or newer; torch ([^.]*\.[^;]*?) were tested", "README.md")
    assert re.findall(r"\d+\.\d+", words) == [minor(each) for each in releases()]
    assert set(found(r"\ntorch==([\d.]+)", "constraints.txt")) <= set(releases())
    assert set(found(r"test-torch VERSION=([\d.]+)", ".ci/run")) <= set(releases())
    assert found(r'\["oldest", "([\d.]+)"\]', ".github/workflows/ci.yml") == releases()[-1:]
    assert minor(releases()[-1]) == NEWEST


def releases() -> list[str]:
    (words,) = found(r"tested with torch ([\d., and]+),", "docs/explanation/limits.md")
    return re.findall(r"[\d.]*\d", words)
