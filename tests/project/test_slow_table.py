"""The list of slow tests, which `make quick` leaves out, names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_slow_test_is_there() -> None:
    gone = []
    for test in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        file, *_, name = test.partition("[")[0].split("::")
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
        if not re.search(rf"\bdef {name}\(", text):
            gone.append(test)
    assert not gone, f"Delete these lines of tests/slow.txt, or write it anew (`make slow`): {gone}"
