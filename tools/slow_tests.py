"""Writes tests/slow.txt: the tests that take half a second of processor time or more.

    python tools/slow_tests.py [FOLDER...]    runs the tests, all by default; an hour at most

`make quick` leaves them out: `tests/conftest.py` marks them `slow`. Of the tests in other folders
the table keeps what it has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "slow.txt"
SLOW = 0.5  # s


class Clock:
    """A plugin that notes the processor time of each test, of its child processes too."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note the time of one test."""
        before = sum(os.times()[:4])
        try:
            return (yield)
        finally:
            self.took[item.nodeid] = sum(os.times()[:4]) - before


def main(folders: list[str]) -> int:
    """Run the tests of some folders, and write the table anew."""
    clock = Clock()
    where = folders or ["tests", "--ignore=tests/e2e"]
    failed = pytest.main(["-q", "-p", "no:xdist", "--durations=0", *where], plugins=[clock])
    known = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    slow = {test for test in known if test and test not in clock.took and folders}
    slow |= {test for test, seconds in clock.took.items() if seconds >= SLOW}
    TABLE.write_text("".join(f"{test}\n" for test in sorted(slow)), encoding="utf-8")
    if out := os.environ.get("TIMES"):
        Path(out).write_text("".join(f"{s:.3f} {t}\n" for t, s in clock.took.items()))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
