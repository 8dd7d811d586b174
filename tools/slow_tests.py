"""Writes tests/slow.txt: the tests that take half a second or more, on an idle machine.

    python tools/slow_tests.py [FOLDER...]    runs the tests, all by default

`make quick` leaves them out: `tests/conftest.py` marks them `slow`. The table keeps the tests of
other folders.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "slow.txt"
SLOW = 0.5  # s


class Clock:
    """A plugin that notes the time of each test."""

    def __init__(self) -> None:
        self.took: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note the time of one test."""
        before = time.monotonic()
        try:
            return (yield)
        finally:
            self.took[item.nodeid] = time.monotonic() - before


def main(folders: list[str]) -> int:
    """Run the tests of some folders, and write the table anew."""
    clock = Clock()
    where = folders or ["tests", "--ignore=tests/e2e"]
    failed = pytest.main(["-q", "-p", "no:xdist", "--durations=0", *where], plugins=[clock])
    known = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    slow = {test for test in known if test and test not in clock.took and folders}
    slow |= {test for test, seconds in clock.took.items() if seconds >= SLOW}
    TABLE.write_text("".join(f"{test}\n" for test in sorted(slow)), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
