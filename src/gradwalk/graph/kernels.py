"""Which calls of a backward program run in which kernel, read off what Inductor wrote.

Inductor's own notes (the kernels' names, "Source Nodes") also name calls whose results a kernel
only reads, so they are not used. What flows tells: a buffer that goes into a matrix product or
comes out at the end is the result of a known call, and a kernel has to do all that lies between
what it reads and what it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .inductor_text import (
    Call,
    ProgramNode,
    UnknownKernelsError,
    Version,
    is_view,
    operation,
    read_program,
    read_written,
    seen_through,
)


@dataclass(frozen=True)
class Kernel:
    """A kernel that backward calls, or an operation of a library.

    Attributes:
        name: What Inductor calls it; one that is called several times has a number behind.
        calls: The calls of the program that it certainly does, in their order: name -> operation,
            {"mul_3": "mul"}.
        is_whole: Whether these are all that it does.
        is_library: Whether it is an operation of a library, as a matrix product mostly is.
    """

    name: str
    calls: dict[str, str]
    is_whole: bool
    is_library: bool


MOST_TRIED = 1_000_000
"""So many pairs of a call and a kernel are tried where not all buffers are known."""

_IN_PARTS = frozenset({"cat", "stack"})
"""Operations whose parts several kernels may write."""

_OF_SHAPES = frozenset({"avg_pool2d_backward", "avg_pool3d_backward"})
"""Operations that take a second tensor for its shape."""


def kernels(program: str, written: str) -> list[Kernel]:
    """What runs in which kernel.

    Args:
        program: The program that Inductor took, as it noted it.
        written: The Python text that it wrote for it.

    Returns:
        The kernels in the order in which they are called.

    Raises:
        UnknownKernelsError: It cannot be told, with the reason.
    """
    try:
        nodes, outputs = read_program(program)
        calls, given = read_written(written)
        _name_outputs(nodes, outputs, given)
        _name_libraries(nodes, calls)
        return _assigned(nodes, calls)
    except UnknownKernelsError:
        raise
    except Exception as error:  # written as nobody has met yet
        raise UnknownKernelsError(
            f"what Inductor wrote is not laid out as it is known ({type(error).__name__}: {error})"
        ) from None


def _name_outputs(
    nodes: Mapping[str, ProgramNode], outputs: Sequence[str | None], given: Sequence[Version | None]
) -> None:
    if len(outputs) != len(given):
        raise UnknownKernelsError("it gives another number of results than the program")
    for name, version in zip(outputs, given, strict=True):
        if name is not None and version is not None:
            _name(nodes, version, name)


def _name(nodes: Mapping[str, ProgramNode], version: Version, name: str) -> None:
    """Note whose result a buffer holds: of a view that it holds all of, what that is a view of."""
    if version.node is None:
        seen = seen_through(nodes, name)
        version.node = next((each for each in reversed(seen) if version.fits(nodes[each])), name)


def _name_libraries(nodes: Mapping[str, ProgramNode], calls: Sequence[Call]) -> None:
    """Find which call of the program each call of a library is, until nothing more is told."""
    waiting = [call for call in calls if call.is_library]
    packets = {operation(call.name) for call in waiting}
    free = {name for name, node in nodes.items() if operation(node.target) in packets}
    takers, parts = _takers(nodes, free), _parts(nodes)
    while waiting:
        left = []
        for call in waiting:
            given = call.gives[0].node
            known = [takers.get(each.node, []) for each in call.takes if each.node is not None]
            likely = [given] if given is not None else min(known, key=len) if known else free
            fits = {each for each in likely if each in free and _may_be(nodes, call, each)}
            if len(fits) != 1:
                left.append(call)
                continue
            (call.node,) = fits
            free.discard(call.node)
            _know(nodes, call, call.node, parts.get(call.node, ()))
        if len(left) == len(waiting):
            break
        waiting = left
    if waiting or free:
        raise UnknownKernelsError("which call of the program each matrix product is, is not told")


def _takers(nodes: Mapping[str, ProgramNode], names: Iterable[str]) -> dict[str, list[str]]:
    """What some nodes take, and what that is a view of -> those that take it."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        for taken in nodes[name].takes:
            for each in seen_through(nodes, taken):
                found.setdefault(each, []).append(name)
    return found


def _parts(nodes: Mapping[str, ProgramNode]) -> dict[str, list[str]]:
    """Node that gives several tensors -> what takes one of them out."""
    found: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.target == "getitem":
            found.setdefault(node.takes[0], []).append(name)
    return found


def _may_be(nodes: Mapping[str, ProgramNode], call: Call, name: str) -> bool:
    node = nodes[name]
    if operation(node.target) != operation(call.name) or len(node.takes) != len(call.takes):
        return False
    if call.gives[0].node not in (None, name):
        return False
    for version, taken in zip(call.takes, node.takes, strict=True):
        seen = seen_through(nodes, taken)
        if version.node is not None:
            if version.node not in seen:
                return False
        elif not any(version.fits(nodes[each]) for each in seen):
            return False
    return True


def _know(nodes: Mapping[str, ProgramNode], call: Call, name: str, parts: Sequence[str]) -> None:
    call.gives[0].node = name
    for version, taken in zip(call.takes, nodes[name].takes, strict=True):
        _name(nodes, version, taken)
    for other in parts:
        part = nodes[other].part
        if part in call.parts:
            call.parts[part].node = other


def _assigned(nodes: Mapping[str, ProgramNode], calls: Sequence[Call]) -> list[Kernel]:
    libraries = {call.node for call in calls if call.is_library}
    own = [call for call in calls if not call.is_library]
    _name_between(nodes, calls, libraries)
    between = {id(call): _between(nodes, call, libraries) for call in own}
    read = {id(version) for call in calls for version in call.takes}
    open_ends = {
        id(call)
        for call in own
        if between[id(call)] is None
        or any(version.node is None for version in call.takes)
        or any(version.node is None and id(version) in read for version in call.gives)
    }
    certain: dict[int, set[str]] = {}
    for call in own:
        is_told = all(version.node is not None for version in call.takes)
        certain[id(call)] = set(between[id(call)] or ()) if is_told else set()
    placed = set().union(*certain.values())
    reached = {each for found in between.values() for each in found or ()}
    left = sorted(reached - placed)
    for name in left if len(left) * len(own) <= MOST_TRIED else ():
        may = [call for call in own if _may_do(nodes, call, name, between[id(call)], libraries)]
        if (
            len(may) == 1
            and id(may[0]) in open_ends
            and operation(nodes[name].target) not in _IN_PARTS
        ):
            certain[id(may[0])].add(name)
    order = {name: place for place, name in enumerate(nodes)}
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    met: dict[str, int] = {}
    found = []
    for call in calls:
        met[call.name] = number = met.get(call.name, 0) + 1
        several = counts[call.name] > 1 and not call.is_library
        done = {call.node} if call.is_library else certain[id(call)]
        computed = [each for each in done if each and _is_computed(nodes, each)]
        found.append(
            Kernel(
                f"{call.name} (call {number} of {counts[call.name]})" if several else call.name,
                {
                    each: operation(nodes[each].target)
                    for each in sorted(computed, key=order.__getitem__)
                },
                call.is_library or id(call) not in open_ends,
                call.is_library,
            )
        )
    return found


def _may_do(
    nodes: Mapping[str, ProgramNode],
    call: Call,
    name: str,
    between: set[str] | None,
    libraries: set[str | None],
) -> bool:
    """Whether a kernel may do a call of the program that is not known to be in another."""
    if between is not None and name in between:
        return True
    reads = {version.node for version in call.takes}
    if between is not None and None not in {*reads, *(version.node for version in call.gives)}:
        return False
    return None in reads or _can_be_made(nodes, name, reads, libraries)


def _name_between(
    nodes: Mapping[str, ProgramNode], calls: Sequence[Call], libraries: set[str | None]
) -> None:
    """Name what goes from kernel to kernel, where only one result can be that."""
    readers: dict[int, list[Call]] = {}
    for call in calls:
        for version in call.takes:
            readers.setdefault(id(version), []).append(call)
    for call in calls:
        if call.is_library or any(version.node is None for version in call.takes):
            continue
        reads = {version.node for version in call.takes}
        for version in call.gives:
            if version.node is not None or version.numel is None or id(version) not in readers:
                continue
            wanted = [_between(nodes, each, libraries) or set() for each in readers[id(version)]]
            may = [
                name
                for name in set.intersection(*wanted)
                if _is_computed(nodes, name) and nodes[name].numel == version.numel
                if _can_be_made(nodes, name, reads, libraries)
            ]
            if len(may) == 1:
                (version.node,) = may


def _can_be_made(
    nodes: Mapping[str, ProgramNode], name: str, reads: set[str | None], libraries: set[str | None]
) -> bool:
    """Whether a result can be worked out from what a kernel reads."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        at = waiting.pop()
        node = nodes[at]
        if at in reads or at in found or node.target == "size":
            continue
        is_made = node.target == "getitem" and node.takes[0] in libraries
        if is_made or node.target == "placeholder" or at in libraries:
            return False
        found.add(at)
        waiting += _read_by(node)
    return True


def _is_computed(nodes: Mapping[str, ProgramNode], name: str) -> bool:
    return nodes[name].target != "getitem" and not is_view(nodes, nodes[name])


def _between(
    nodes: Mapping[str, ProgramNode], call: Call, libraries: set[str | None]
) -> set[str] | None:
    """What lies between what a kernel writes and what it reads; None where that has a hole."""
    reads = {version.node for version in call.takes}
    has_unknown = None in reads
    found: set[str] = set()
    waiting = [version.node for version in call.gives if version.node not in (None, *reads)]
    while waiting:
        name = waiting.pop()
        assert name is not None
        node = nodes[name]
        if name in found or node.target == "size":
            continue
        is_outside = node.target == "placeholder" or name in libraries
        if is_outside or (node.target == "getitem" and node.takes[0] in libraries):
            if not has_unknown and (node.numel is None or node.numel > 0):
                return None
            continue
        found.add(name)
        waiting += [each for each in _read_by(node) if each not in reads]
    return found


def _read_by(node: ProgramNode) -> tuple[str, ...]:
    """What a node takes, without that of which it needs the shape alone."""
    packet = operation(node.target)
    if packet.endswith("_like") or packet.startswith("new_"):
        return ()
    return node.takes[:1] if packet in _OF_SHAPES else node.takes
