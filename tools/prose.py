"""Check the words of docs, docstrings, comments and messages with textlint.

    python tools/prose.py              checks the places listed in tools/prose/checked.txt
    python tools/prose.py PATH ...     checks these files and folders

The prose of a file goes into a Markdown file with as many lines, so that line numbers are right.
The rules are in `tools/prose/textlint.json`, the project's terms in `tools/prose/terms.yml`.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "tools" / "prose"
SUFFIXES = (".md", ".ipynb", ".py", ".ts")
SKIPPED = (
    "generated.ts",
    "node_modules",
    "package-lock",
    "_build",
    "docs/tutorials/0",
    "docs/tutorials/1",
)
_WORDS = 4  # a shorter text in code is a name or a key
_TS = re.compile(r"//\s?([^\n]+)|/\*\*?(.*?)\*/|\"([^\"\n]*)\"|`([^`]*)`", re.DOTALL)
_CODE = re.compile(r"[{};]\n")  # of a style sheet or a script in a string
_FIELD = re.compile(r"^\s*\*{0,2}\w+: ")


def main(arguments: list[str]) -> int:
    """Check the prose of files; returns the exit status."""
    listed = (HERE / "checked.txt").read_text(encoding="utf-8").split()
    files = [file for place in arguments or listed for file in files_in(ROOT / place)]
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            target = Path(folder) / file.relative_to(ROOT).with_name(f"{file.name}.md")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(prose_of(file), encoding="utf-8", errors="replace")
        command = ["npx", "textlint", "--config", str(HERE / "textlint.json"), "--format", "unix"]
        run = subprocess.run(
            [*command, folder], cwd=ROOT / "js", capture_output=True, text=True, check=False
        )
    found = run.stdout.replace(f"{folder}/", "").replace(".md:", ":")
    sys.stdout.write(found)
    sys.stderr.write(run.stderr)
    return run.returncode


def files_in(place: Path) -> Iterator[Path]:
    """Yield the files with prose at a path, sorted."""
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    for file in found:
        if file.suffix in SUFFIXES and not any(part in str(file) for part in SKIPPED):
            yield file


def prose_of(file: Path) -> str:
    """Return the prose of a file, each sentence on the line where it stands."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    lines = [""] * (text.count("\n") + 1)
    for row, words in in_python(text) if file.suffix == ".py" else in_typescript(text):
        for i, line in enumerate(words.split("\n"), row):
            if i < len(lines):
                lines[i] = f"{lines[i]} {line.strip()}".strip()
    return "\n".join(lines)


def in_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield (row from 0, prose) of docstrings, messages and comments."""
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    }
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(getattr(part, "value", "x")) for part in node.values]
            whole = "".join(p if isinstance(p, str) else "x" for p in parts)
            if len(whole.split()) >= _WORDS:
                yield node.lineno - 1, whole.replace("\n", " ")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docs:
                yield node.lineno - 1, docstring_prose(node.value)
            elif (
                id(node) not in inner
                and len(node.value.split()) >= _WORDS
                and not _CODE.search(node.value)
            ):
                yield node.lineno - 1, node.value.replace("\n", " ")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if (
            token.type == tokenize.COMMENT
            and "noqa" not in token.string
            and "type:" not in token.string
        ):
            yield token.start[0] - 1, token.string.lstrip("# ")


def docstring_prose(text: str) -> str:
    """Return a docstring without its code, with the names of arguments taken off."""
    kept: list[str] = []
    code = False
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.endswith("::") or stripped.startswith((">>>", "```")):
            code = True
        elif not stripped:
            code = code and bool(kept) and not kept[-1]
        is_label = stripped.endswith(":") and len(stripped.split()) == 1
        kept.append("" if code or is_label else _FIELD.sub("", line))
    return "\n".join(kept)


def in_typescript(text: str) -> Iterator[tuple[int, str]]:
    """Yield (row from 0, prose) of comments and of texts of several words."""
    for match in _TS.finditer(text):
        comment = match[1] or match[2]
        words = comment or re.sub(r"\$\{[^}]*\}", "x", match[3] or match[4] or "")
        if comment or len(words.split()) >= _WORDS:
            yield text[: match.start()].count("\n"), re.sub(r"(?m)^\s*\*\s?", "", words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
