"""The wire format's two sides, gradwalk.wire and js/wire, say the same."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from gradwalk import wire

FOLDER = Path(__file__).parents[1] / "js" / "wire"
TYPESCRIPT = "\n".join(each.read_text(encoding="utf-8") for each in sorted(FOLDER.glob("*.ts")))


def interfaces(text: str) -> dict[str, dict[str, str]]:
    """Interface -> field -> type, from TypeScript source."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    found = re.findall(r"export interface (\w+) \{(.*?)\n\}", text, flags=re.DOTALL)
    return {name: dict(re.findall(r"(\w+): ([^;]+);", body)) for name, body in found}


def typed_dicts() -> dict[str, dict[str, str]]:
    """The same of gradwalk.wire, its types put into TypeScript."""
    found = {name: value for name, value in vars(wire).items() if is_typeddict(value)}
    return {
        name: {field: in_typescript(hint) for field, hint in get_type_hints(value).items()}
        for name, value in found.items()
    }


PLAIN = {int: "number", float: "number", str: "string", bool: "boolean", Any: "unknown"}


def in_typescript(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    if hint == wire.JsonNumber:
        return "JsonNumber"
    if hint == wire.Column:  # and Ranges, to Python the same type
        return "Column"
    if is_typeddict(hint):
        return hint.__name__
    if get_origin(hint) is Literal:
        return " | ".join(f'"{value}"' for value in get_args(hint))
    if get_origin(hint) is list:
        inner = in_typescript(get_args(hint)[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if isinstance(hint, types.UnionType):
        without_none = tuple(part for part in get_args(hint) if part is not type(None))
        if set(without_none) == set(get_args(wire.JsonNumber)):
            return "JsonNumber | null"
        return " | ".join(in_typescript(part) for part in without_none) + " | null"
    raise AssertionError(hint)


# Python says Any where TypeScript can say more.
LOOSER = {
    ("TensorSummary", "values"): "Values | null",
    ("SeedModel", "values"): "Values | null",
    ("GrownModel", "values"): "Values | null",
    ("FewModel", "values"): "Values | null",
    ("RunModel", "values"): "(Values | null)[]",
    ("FactorModel", "value"): "Values | null",
    ("PathModel", "product"): "Values | null",
    ("ChainModel", "sum"): "Values | null",
    ("PackedRun", "values"): "Values[]",
    ("PackedRun", "norms"): "(JsonNumber | null | (JsonNumber | null)[])[]",
}


def drift(typescript: str) -> list[str]:
    theirs, ours = interfaces(typescript.replace("Ranges", "Column")), typed_dicts()
    found = [f"interface {name}" for name in theirs.keys() ^ ours.keys()]
    for name in theirs.keys() & ours.keys():
        for field in theirs[name].keys() | ours[name].keys():
            wanted = LOOSER.get((name, field), ours[name].get(field))
            if theirs[name].get(field) != wanted:
                found.append(f"{name}.{field}: {theirs[name].get(field)} and {wanted}")
    return found


def test_both_sides_have_the_same_fields_and_types():
    assert drift(TYPESCRIPT) == []
    assert f"WIRE_VERSION = {wire.WIRE_VERSION};" in TYPESCRIPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("freed: number[];", ""),
        ("op: string;", "op: number;"),
        ("device: string | null;", "device: string;"),
        ('kind: "leaf" | "op" |', 'kind: "leaf" | "operation" |'),
        ("export interface RootModel", "export interface OutputRoot"),
    ],
)
def test_a_drift_is_seen(old, new):
    assert old in TYPESCRIPT
    assert drift(TYPESCRIPT.replace(old, new)) != []
