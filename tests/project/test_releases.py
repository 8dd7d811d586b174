"""README, docs, conda recipe and workflows name the same tested torch, Python and hosts."""

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
    assert found(r"torch if yours is older than (\d+\.\d+)", "README.md") == [oldest]
    assert minor(releases()[0]) == oldest == OLDEST


def test_the_tested_releases_are_the_same_everywhere():
    (words,) = found(r"\*\*Tested\*\* with torch (.*?), Python", "README.md")
    assert re.findall(r"\d+\.\d+", words) == [minor(each) for each in releases()]
    assert set(found(r"\ntorch==([\d.]+)", "constraints.txt")) <= set(releases())
    assert set(found(r"test-torch VERSION=([\d.]+)", ".ci/run")) <= set(releases())
    assert found(r'\["oldest", "([\d.]+)"\]', ".github/workflows/ci.yml") == releases()[-1:]
    assert minor(releases()[-1]) == NEWEST


def test_the_tested_pythons_are_the_same_everywhere():
    ci = re.findall(r"3\.\d+", found(r"python: \[(.*)\]", ".github/workflows/ci.yml")[0])
    assert found(r"Python :: (3\.\d+)", "pyproject.toml") == ci
    assert found(r"PYTHONS:-([\d. ]+)\}", "tests/other_pythons.sh") == [" ".join(ci)]
    for file in ("README.md", "docs/explanation/limits.md"):
        assert found(r"Python (3\.\d+) to (3\.\d+)", file) == [(ci[0], ci[-1])], file


def test_the_hosts_of_the_readme_are_those_that_are_tested():
    (said,) = found(r"Python 3\.\d+ to 3\.\d+, and (.*)\n", "README.md")
    hosts = {host.strip() for host in re.split(r",| and ", said)}
    rows = " ".join(found(r"\n\| ([A-Z][^|]*|marimo[^|]*) \| (?:[\d[])", "docs/reference/hosts.md"))
    tested = " ".join(found(r"\nHOSTS = (.*)", "tests/e2e/test_hosts.py"))
    for host in hosts - {"JupyterLab"}:  # all of tests/e2e is run in it
        name = host.removesuffix("'s renderer").removeprefix("Jupyter ")
        assert {"VS Code": "Visual Studio Code"}.get(name, name) in rows, host
        assert name.lower().replace(" ", "") in tested, host


def releases() -> list[str]:
    (words,) = found(r"tested with torch ([\d., and]+),", "docs/explanation/limits.md")
    return re.findall(r"[\d.]*\d", words)
