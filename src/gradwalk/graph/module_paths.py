"""Paths of modules: dotted, or with slashes as namespaces."""

from __future__ import annotations

from collections.abc import Iterable

OUTSIDE = "()"  # the path of operations outside all modules


def ancestors(path: str, by: str = ".") -> list[str]:
    """Return a path and its ancestors, innermost first, ending with the root."""
    found = [path]
    while path:
        path = path.rpartition(by)[0]
        found.append(path)
    return found


def below(path: str, name: str) -> str:
    """Return the path of a dotted name below a module."""
    return f"{path}.{name}" if path and name else path or name


def means(ref: str, name: str, *, around: bool = False) -> bool:
    """Whether a dotted pattern, with "*" for any part, matches a name."""
    if "*" not in ref:
        return ref == name or (around and ref.startswith(f"{name}."))
    parts, others = ref.split("."), name.split(".")
    if len(parts) != len(others) and not (around and len(parts) > len(others)):
        return False
    return all(part in ("*", other) for part, other in zip(parts, others, strict=False))


def common_ancestor(paths: Iterable[str], by: str = ".") -> str:
    """Return the innermost module around all paths; a single path itself."""
    first, *others = dict.fromkeys(paths)
    if OUTSIDE in others or (first == OUTSIDE and others):
        return ""
    around = first.split(by) if first else []
    for path in others:
        parts = path.split(by) if path else []
        same = 0
        while same < min(len(around), len(parts)) and around[same] == parts[same]:
            same += 1
        around = around[:same]
    return by.join(around)


def innermost(paths: set[str]) -> str:
    """Return the innermost of nested modules; else the module around all of them."""
    deepest = max(paths, key=len)
    around = ancestors(deepest)
    return deepest if all(path in around for path in paths) else common_ancestor(paths)
