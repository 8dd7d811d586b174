"""Checks what changed since the last commit on main, in half a minute: `make quick`.

    python tools/quick.py           since the last commit that this branch shares with main
    python tools/quick.py REVISION  since another one

Linters look at the changed files, type checkers at everything, and tests run in the folders of the
changed files, without those marked `slow` or `full`. `make test` runs all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES, TESTS = Path("src/gradwalk"), Path("tests")


def main(arguments: Sequence[str]) -> int:
    """Run every check that the changed files need, two at a time; return the exit status."""
    base = arguments[0] if arguments else last_on_main()
    files = changed_since(base)
    if not files:
        print(f"Nothing changed since {base[:10]}.")
        return 0
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        failed = sum(pool.map(run, *zip(*jobs_for(files, base), strict=True)))
    print(f"{len(files)} changed files, {time.monotonic() - began:.0f} s")
    return int(failed > 0)


def last_on_main() -> str:
    """The last commit that this branch shares with main."""
    for branch in ("main", "origin/main"):
        command = ["git", "merge-base", "HEAD", branch]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    return "HEAD"


def changed_since(base: str) -> list[Path]:
    """The changed and the untracked files that are there."""
    names = [
        *git("diff", "--name-only", "--no-renames", "-z", base),
        *git("ls-files", "--others", "--exclude-standard", "-z"),
    ]
    return [Path(name) for name in sorted(set(names)) if (ROOT / name).is_file()]


def git(*command: str) -> list[str]:
    """Return what git lists, separated by zeros."""
    output = subprocess.run(
        ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [name for name in output.split("\0") if name]


def jobs_for(files: Sequence[Path], base: str) -> list[tuple[str, list[str], Path]]:
    """Return name, command and folder of each check, the longest first."""
    python, js = sys.executable, ROOT / "js"
    scripts = [str(file) for file in files if file.suffix == ".py"]
    front = [str(file.relative_to("js")) for file in files if file.parts[0] == "js"]
    tests = tests_for(files)
    jobs: list[tuple[str, list[str], Path]] = []
    if tests:
        marks = ["-m", "not slow and not full"]
        workers = ["-n", "2"] if any((ROOT / test).is_dir() for test in tests) else []
        jobs.append(("pytest", [python, "-m", "pytest", "-q", *marks, *workers, *tests], ROOT))
    if scripts:
        jobs.append(("mypy", [python, "-m", "mypy"], ROOT))
    if front:
        jobs.append(("vitest", ["npx", "vitest", "run", "--changed", base], js))
        jobs.append(("tsc", ["npm", "run", "--silent", "types"], js))
        linted = [name for name in front if name.endswith((".ts", ".mjs", ".css", ".json"))]
        biome = ["npx", "biome", "check", "--no-errors-on-unmatched", *linted]
        jobs.append(("biome", biome, js))
    if scripts:
        ruff = [python, "-m", "ruff"]
        jobs.append(("ruff", [*ruff, "check", *scripts], ROOT))
        jobs.append(("format", [*ruff, "format", "--check", *scripts], ROOT))
        jobs.append(("wire types", [python, "tools/wire_types.py", "--check"], ROOT))
    return jobs or [("git", ["git", "diff", "--check", base], ROOT)]


def tests_for(files: Sequence[Path]) -> list[str]:
    """Return the tests to run: folders of changed sources, changed tests, and users of helpers."""
    found: set[Path] = set()
    for file in files:
        if file.suffix != ".py":
            continue
        if SOURCES in file.parents:
            found |= folders_of(file.relative_to(SOURCES))
        elif TESTS / "support" in file.parents:
            found |= users_of(file.stem)
        elif TESTS in file.parents and file.name.startswith("test_"):
            found.add(file)
    found = {place for place in found if TESTS / "e2e" not in [place, *place.parents]}
    return sorted(str(place) for place in found if not found & {*place.parents})


def folders_of(source: Path) -> set[Path]:
    """The tests of a source file: the folder of its name, and the order of imports."""
    parts = source.parts[: 2 if source.parts[0] == "features" else 1]
    folder = TESTS.joinpath(*parts)
    order = {TESTS / "project" / "test_layers.py"}
    return order | ({folder} if len(source.parts) > 1 and (ROOT / folder).is_dir() else set())


def users_of(helper: str) -> set[Path]:
    """The test files that import a file of tests/support."""
    uses = re.compile(rf"^\s*(?:from|import) {helper}\b", re.MULTILINE)
    files = (file for file in (ROOT / TESTS).rglob("test_*.py"))
    return {
        file.relative_to(ROOT) for file in files if uses.search(file.read_text(encoding="utf-8"))
    }


def run(name: str, command: list[str], folder: Path) -> bool:
    """Run a check and print what it says if it fails; return whether it failed."""
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    has_failed = done.returncode not in ((0, 5) if name == "pytest" else (0,))  # 5: no tests
    result = "failed" if has_failed else "passed"
    print(f"{name} {result} in {time.monotonic() - began:.0f} s", flush=True)
    if has_failed:
        print(done.stdout + done.stderr, flush=True)
    return has_failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
