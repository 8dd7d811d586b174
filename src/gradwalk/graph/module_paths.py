"""Paths of modules, dotted; or namespaces, with slashes."""

from __future__ import annotations

from collections.abc import Iterable

OUTSIDE = "()"
"""Stands for a path where there is none: outside of every module."""


def ancestors(path: str, by: str = ".") -> list[str]:
    """A path and the paths around it, innermost first, the root's at the end."""
    found = [path]
    while path:
        path = path.rpartition(by)[0]
        found.append(path)
    return found


def below(path: str, name: str) -> str:
    """The path of what stands below a module under a dotted name."""
    return f"{path}.{name}" if path and name else path or name


def means(ref: str, name: str, *, around: bool = False) -> bool:
    """Whether a dotted name with "*" for any part means another.

    Args:
        ref: The one: "blocks.*.weight".
        name: The other: "blocks.3.weight".
        around: Whether what stands below the other will do: "blocks.3".

    Example::

        >>> means("blocks.*.weight", "blocks.3.weight"), means("blocks.*.weight", "blocks.3")
        (True, False)
        >>> means("blocks.*.weight", "blocks.3", around=True)
        True
    """
    if "*" not in ref:
        return ref == name or (around and ref.startswith(f"{name}."))
    parts, others = ref.split("."), name.split(".")
    if len(parts) != len(others) and not (around and len(parts) > len(others)):
        return False
    return all(part in ("*", other) for part, other in zip(parts, others, strict=False))


def common_ancestor(paths: Iterable[str], by: str = ".") -> str:
    """The innermost module around all of these; of one path, itself."""
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
    """The innermost of some modules inside each other; else the module around all of them."""
    deepest = max(paths, key=len)
    around = ancestors(deepest)
    return deepest if all(path in around for path in paths) else common_ancestor(paths)
