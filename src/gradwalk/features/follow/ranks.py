"""One report of all processes of a machine that ``torchrun`` started.

Each process but the first leaves its report in a folder, and the first reads them at the end. They
exchange nothing while the script runs: a collective operation of ours could wait forever.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WAITS = 30.0  # seconds for the others, after the first process has ended
_AGREE = ("kind", "severity", "step", "parameters", "line")


@dataclass(frozen=True)
class Processes:
    """The processes of one machine, by what ``torchrun`` sets."""

    rank: int
    local: int
    size: int  # on this machine
    started: str  # names this start of them

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Processes:
        """Read them; without ``torchrun`` there is one."""

        def number(name: str, otherwise: int) -> int:
            text = environment.get(name, "")
            return int(text) if text.isdecimal() else otherwise

        rank, size = number("RANK", 0), number("LOCAL_WORLD_SIZE", 1)
        words = [
            environment.get(f"TORCHELASTIC_{each}", "") for each in ("RUN_ID", "RESTART_COUNT")
        ]
        started = "-".join([*words, environment.get("MASTER_PORT", ""), str(os.getppid())])
        safe = "".join(each if each.isalnum() else "-" for each in started)
        return cls(rank, number("LOCAL_RANK", rank if size > 1 else 0), size, safe)

    @property
    def is_first(self) -> bool:
        """Whether it prints the report."""
        return self.local == 0

    def path_for(self, path: str) -> str:
        """Return the path of this process's own file: "step-1.gw" of rank 1."""
        if self.size == 1:
            return path
        whole = Path(path)
        return str(whole.with_name(f"{whole.stem}-{self.rank}{whole.suffix}"))

    def leave(self, report: Mapping[str, Any]) -> None:
        """Leave the report of this process for the first one."""
        folder = self._folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        part = folder / f"{self.local}.part"
        part.write_text(json.dumps(report), encoding="utf-8")
        part.replace(folder / f"{self.local}.json")

    def gather(self) -> list[dict[str, Any]]:
        """Wait for the reports of the other processes, and return those that came."""
        folder, found = self._folder(), []
        end = time.monotonic() + _WAITS
        waiting = [folder / f"{local}.json" for local in range(1, self.size)]
        while waiting and time.monotonic() < end:
            if waiting[0].exists():
                path = waiting.pop(0)
                found.append(json.loads(path.read_text(encoding="utf-8")))
                path.unlink()
            else:
                time.sleep(0.05)
        with suppress(OSError):
            folder.rmdir()
        return found

    def _folder(self) -> Path:
        return Path(tempfile.gettempdir()) / f"gradwalk-{self.started}"


def united(own: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the report of all: each finding once, with the ranks that have it."""
    found: dict[str, dict[str, Any]] = {}
    for report in (own, *others):
        for finding in report["findings"]:
            key = json.dumps([finding[name] for name in _AGREE])
            found.setdefault(key, {**finding, "ranks": []})["ranks"].append(report["rank"])
    notes = [note for report in (own, *others) for note in report["notes"]]
    ranks = [report["rank"] for report in (own, *others)]
    return {**own, "ranks": ranks, "findings": [*found.values()], "notes": [*dict.fromkeys(notes)]}


def line_of(finding: Mapping[str, Any]) -> str:
    """Return a finding as one line of a report."""
    severity = finding["severity"]
    return f"{'note' if severity == 'info' else severity}: {finding['message']}"
