"""Writes js/wire/generated.ts: the TypedDicts of `gradwalk.schema`, and constants, in TypeScript.

    python tools/wire_types.py            writes it
    python tools/wire_types.py --check    fails if it is not what would be written

The sources are read as text, so that the names of types and the docstrings of fields survive, and
so that neither torch nor an installed gradwalk is needed.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "gradwalk"
OUT = ROOT / "js" / "wire" / "generated.ts"

CONSTANTS = {
    "schema/values.py": ["DIRECTIONS"],
    "graph/labels.py": ["PLUMBING"],
}
"""The constants that both sides need, by the file that has them; it imports nothing of ours."""

MODELS = (
    "values",
    "graph",
    "backward",
    "comparison",
    "details",
    "findings",
    "what_if",
    "updates",
    "traits",
    "file_format",
)
"""The files of `gradwalk.schema` that say what the browser gets."""

PLAIN = {"int": "number", "float": "number", "str": "string", "bool": "boolean", "Any": "unknown"}
DEFAULTS = {"boolean": "false"}
WITH_DEFAULTS = {"DetailsModel": "DETAILS_DEFAULTS"}
"""The models whose defaults are written, too, for the front end's tests."""
SAYS_MORE = {"Values": "JsonNumber | boolean | Values[]"}
"""Types that Python leaves open, as it has none that contain themselves."""


def generated() -> str:
    """The text of the file."""
    parts = [
        "// Written by tools/wire_types.py from src/gradwalk/schema. Do not edit: `make types`."
    ]
    for path, names in CONSTANTS.items():
        values = runpy.run_path(str(PACKAGE / path))
        parts += [f"export const {name} = {_constant(values[name])};" for name in names]
    for name in MODELS:
        file = PACKAGE / "schema" / f"{name}.py"
        parts += _of_file(ast.parse(file.read_text(encoding="utf-8")).body)
    return "\n\n".join(parts) + "\n"


def in_typescript(hint: ast.expr) -> str:
    """A type, from the annotation of a field.

    Args:
        hint: The annotation.

    Raises:
        ValueError: It is of a kind that no field has had so far.
    """
    match hint:
        case ast.Name(id=name):
            return PLAIN.get(name, name)
        case ast.Constant(value=None):
            return "null"
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return " | ".join(dict.fromkeys([in_typescript(left), in_typescript(right)]))
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            each = in_typescript(inner)
            return f"({each})[]" if "|" in each else f"{each}[]"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, inner])):
            return f"Record<string, {in_typescript(inner)}>"
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *_])):
            return in_typescript(inner)  # Python alone checks the rest
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return " | ".join(json.dumps(value) for value in _values(values))
    raise ValueError(
        f"{ast.unparse(hint)!r} has no counterpart in TypeScript: teach it to {__file__}."
    )


def _of_file(body: list[ast.stmt]) -> Iterator[str]:
    for place, statement in enumerate(body):
        doc = _comment(_text_at(body, place + 1), "")
        match statement:
            case ast.ClassDef(name=name, bases=[_, *_]) if not name.startswith("_"):
                yield _interface(statement)
                if name in WITH_DEFAULTS:
                    yield _defaults(statement, WITH_DEFAULTS[name])
            case ast.Assign(targets=[ast.Name(id=name)]) if name in SAYS_MORE:
                yield f"{doc}export type {name} = {SAYS_MORE[name]};"
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_type(name, value):
                yield f"{doc}export type {name} = {in_typescript(value)};"


def _interface(given: ast.ClassDef) -> str:
    bases = [base.id for base in given.bases if isinstance(base, ast.Name)]
    extends = [base for base in bases if base != "TypedDict"]
    mark = "?" if given.keywords else ""  # total=False
    lines = [
        f"{_comment(_text_at(given.body, place + 1), '  ')}"
        f"  {field.target.id}{mark}: {in_typescript(field.annotation)};"
        for place, field in enumerate(given.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]
    head = f"export interface {given.name}{' extends ' * bool(extends)}{', '.join(extends)} {{"
    return _comment(ast.get_docstring(given), "") + "\n".join([head, *lines, "}"])


def _defaults(given: ast.ClassDef, name: str) -> str:
    """The fields that may be missing, with the defaults of `gradwalk.schema.validate`."""
    lines = []
    for field in given.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            kind = in_typescript(field.annotation)
            value = "null" if kind.endswith("| null") else DEFAULTS.get(kind)
            value = "[]" if value is None and kind.endswith("[]") else value
            lines += [] if value is None else [f"  {field.target.id}: {value},"]
    head = f"/** The fields of `{given.name}` that may be missing. */\nexport const {name} = {{"
    return "\n".join([head, *lines, f"}} satisfies Partial<{given.name}>;"])


def _is_type(name: str, value: ast.expr) -> bool:
    return not name.isupper() and isinstance(value, (ast.BinOp, ast.Subscript))


def _text_at(body: list[ast.stmt], place: int) -> str | None:
    """Return the text of a docstring below a field or an alias."""
    match body[place : place + 1]:
        case [ast.Expr(value=ast.Constant(value=str(text)))]:
            return text
    return None


def _comment(text: str | None, indent: str) -> str:
    if text is None:
        return ""
    words = re.sub(r"(?<!`)None", "null", " ".join(text.split())).replace("``", "`")
    lines = textwrap.wrap(words, 96)
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return "".join(
        f"{indent}{line}\n" for line in ["/**", *(f" * {line}" for line in lines), " */"]
    )


def _constant(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    assert isinstance(value, (tuple, frozenset))
    return json.dumps(list(value) if isinstance(value, tuple) else sorted(value)) + " as const"


def _values(given: ast.expr) -> list[object]:
    each = given.elts if isinstance(given, ast.Tuple) else [given]
    return [ast.literal_eval(value) for value in each]


def main(arguments: list[str]) -> int:
    """Write the file, or compare it."""
    text = generated()
    if "--check" not in arguments:
        OUT.write_text(text, encoding="utf-8")
        return 0
    if OUT.exists() and OUT.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(
        f"{OUT.relative_to(ROOT)} differs from src/gradwalk/schema. Run `make types` and commit "
        "what it writes.\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
