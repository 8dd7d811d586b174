"""The two texts that Inductor leaves behind, read: the program that it took, and what it wrote.

What it wrote is Python that calls kernels, each with the buffers that it reads and writes. It is
read as it is known from CPUs; nothing of it is run.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


class UnknownKernelsError(ValueError):
    """What a kernel does cannot be told; it says why."""


@dataclass(frozen=True)
class ProgramNode:
    """A node of the program: what it calls, what it takes, how many numbers it gives."""

    target: str
    takes: tuple[str, ...]
    numel: int | None
    part: int | None = None


@dataclass(eq=False)
class Version:
    """What a buffer holds from one write to the next; ``node`` is whose result, once known."""

    numel: int | None
    is_there: bool = True
    node: str | None = None

    def fits(self, node: ProgramNode) -> bool:
        """Whether it may hold all that a node gives, by its size."""
        return None in (self.numel, node.numel) or self.numel == node.numel


@dataclass(eq=False)
class Call:
    """A call of a kernel or a library."""

    name: str
    takes: list[Version]
    gives: list[Version]
    is_library: bool
    node: str | None = None
    parts: dict[int, Version] = field(default_factory=dict)


_NAMES_OF_VIEWS = (
    "alias as_strided chunk detach diagonal expand narrow permute reshape select slice split "
    "split_with_sizes squeeze swapaxes t transpose unbind unfold unsqueeze view _reshape_alias "
    "_unsafe_view"
)
VIEWS = frozenset(_NAMES_OF_VIEWS.split())
"""Operations that only show numbers of another tensor."""


def read_program(text: str) -> tuple[dict[str, ProgramNode], list[str | None]]:
    """The nodes of the program that Inductor took, by name, and the names of what it gives.

    Args:
        text: The program, as Inductor noted it.
    """
    module = ast.parse(text.strip())
    (made,) = module.body
    assert isinstance(made, ast.ClassDef)
    (forward,) = (each for each in made.body if isinstance(each, ast.FunctionDef))
    nodes: dict[str, ProgramNode] = {}
    for argument in forward.args.args[1:]:
        nodes[argument.arg] = ProgramNode("placeholder", (), _numel(argument.annotation))
    outputs: list[str | None] = []
    for statement in forward.body:
        if isinstance(statement, ast.Return):
            value = statement.value
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
            outputs = [each.id if isinstance(each, ast.Name) else None for each in parts]
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            assert statement.value is not None
            numel = _numel(statement.annotation)
            nodes[statement.target.id] = _node(statement.value, nodes, numel)
        elif isinstance(statement, ast.Assign) and not isinstance(statement.value, ast.Constant):
            (target,) = statement.targets
            if isinstance(target, ast.Name):
                nodes[target.id] = _node(statement.value, nodes, None)
    return nodes, outputs


def _node(value: ast.expr, nodes: Mapping[str, ProgramNode], numel: int | None) -> ProgramNode:
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        part = ast.literal_eval(value.slice)
        return ProgramNode(
            "getitem", (value.value.id,), numel, part if isinstance(part, int) else None
        )
    if not isinstance(value, ast.Call):
        return ProgramNode("size", (), None)
    given = [*value.args, *(each.value for each in value.keywords)]
    takes = [name for one in given for name in _names(one) if name in nodes]
    return ProgramNode(_dotted(value.func), tuple(takes), numel)


def _names(value: ast.expr) -> Iterator[str]:
    """The names in an argument, also within lists."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, (ast.List, ast.Tuple)):
        for each in value.elts:
            yield from _names(each)


def _dotted(value: ast.expr) -> str:
    """What is called, "torch.ops.aten.mm.default"."""
    parts = []
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    parts.append(value.id if isinstance(value, ast.Name) else "()")
    return ".".join(reversed(parts))


def _numel(annotation: ast.expr | None) -> int | None:
    """How many numbers a tensor has, of "f32[4, 8][8, 1]cpu"."""
    said = annotation.value if isinstance(annotation, ast.Constant) else None
    found = re.match(r"\w+\[([\d, ]*)\]", said) if isinstance(said, str) else None
    if found is None:
        return None
    return math.prod(int(each) for each in found[1].split(",") if each.strip())


def operation(target: str) -> str:
    """The operation of "torch.ops.aten.mm.default" or "extern_kernels.mm": "mm"."""
    parts = target.removeprefix("torch.ops.").split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def seen_through(nodes: Mapping[str, ProgramNode], name: str) -> list[str]:
    """A node and what it is a view of, down to the one whose numbers it shows."""
    found = [name]
    while is_view(nodes, nodes[found[-1]]):
        found.append(nodes[found[-1]].takes[0])
    return found


def is_view(nodes: Mapping[str, ProgramNode], node: ProgramNode) -> bool:
    """Whether a node of a program only shows numbers of another one."""
    if node.target == "getitem":
        return is_view(nodes, nodes[node.takes[0]])
    return operation(node.target) in VIEWS and bool(node.takes)


def read_written(text: str) -> tuple[list[Call], list[Version | None]]:
    """The calls of kernels and libraries in order, and the buffers that are given back.

    Args:
        text: The Python text that Inductor wrote.

    Raises:
        UnknownKernelsError: It is written in a way that is not known.
    """
    module = ast.parse(text)
    signatures = dict(_signatures(module))
    called = [each for each in _functions(module) if each.name == "call"]
    if len(called) != 1 or "def partition_" in text:
        raise UnknownKernelsError("Inductor wrote several parts, or no Python that calls kernels")
    return _Reader(signatures, text.splitlines()).read(called[0])


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a file and the methods of its classes; their lines are not gone through."""
    for statement in module.body:
        inner = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        yield from (each for each in inner if isinstance(each, ast.FunctionDef))


def _signatures(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The parameters of each kernel: "in_ptr0", "in_out_ptr0", "out_ptr1"."""
    for statement in module.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        (target,) = statement.targets
        if _dotted(statement.value.func) != "async_compile.cpp_pybinding":
            continue
        source = ast.literal_eval(statement.value.args[1])
        found = re.search(r"void\s+kernel\(([^)]*)\)", source)
        if found is not None and isinstance(target, ast.Name):
            yield target.id, [each.split()[-1].lstrip("*") for each in found[1].split(",")]


_IGNORED = ("assert_size_stride", "assert_alignment", "args.clear", "run_intermediate_hooks")


class _Reader:
    """Reads the function that calls the kernels, statement by statement."""

    def __init__(self, signatures: Mapping[str, list[str]], lines: Sequence[str]) -> None:
        self._signatures = signatures
        self._lines = lines
        self._now: dict[str, Version] = {}
        self._whole: dict[str, str] = {}  # a part of a buffer -> the buffer
        self._written: set[str] = set()
        self._results: dict[str, Call] = {}  # what gives several tensors
        self._calls: list[Call] = []

    def read(self, function: ast.FunctionDef) -> tuple[list[Call], list[Version | None]]:
        given: list[Version | None] = []
        for statement in function.body:
            if isinstance(statement, ast.Return):
                value = statement.value
                parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
                given = [self._version(each) for each in parts]
            elif isinstance(statement, ast.Assign):
                self._assign(statement)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._run(statement.value)
            elif not isinstance(statement, ast.Delete):
                raise UnknownKernelsError(f"it has a line of another kind: {_line(statement)}")
        return self._calls, given

    def _assign(self, statement: ast.Assign) -> None:
        (target,), value = statement.targets, statement.value
        if isinstance(target, ast.Tuple):  # what it takes
            for each in target.elts:
                if isinstance(each, ast.Name):
                    self._now[each.id] = Version(None, node=each.id)
            return
        if not isinstance(target, ast.Name):
            raise UnknownKernelsError(f"it has a line of another kind: {_line(statement)}")
        if isinstance(value, ast.Name) and value.id in self._now:  # its memory, from now on
            self._now[target.id] = self._now[value.id]
        elif isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
            made = self._results.get(value.value.id)
            if made is not None:
                part = made.parts[ast.literal_eval(value.slice)] = Version(None)
                self._write(target.id, part)
        elif isinstance(value, ast.Call):
            self._assign_call(target.id, value, self._lines[statement.lineno - 1])

    def _assign_call(self, name: str, value: ast.Call, line: str) -> None:
        called = _dotted(value.func)
        if called == "reinterpret_tensor":
            whole = value.args[0]
            if not isinstance(whole, ast.Name):
                raise UnknownKernelsError(f"it has a line of another kind: {line.strip()}")
            if "# reuse" in line:
                self._now[name] = self._now[whole.id]
            else:
                self._whole[name] = self._whole.get(whole.id, whole.id)
        elif called.startswith("empty_strided"):
            self._now[name] = Version(_size(value.args[0]), is_there=False)
        elif called.startswith(("torch.ops.", "extern_kernels.")):
            result = Version(None)
            call = Call(called, self._taken(value), [result], is_library=True)
            self._calls.append(call)
            self._results[name] = call
            self._write(name, result)
        else:
            raise UnknownKernelsError(f"it calls {called}")

    def _run(self, call: ast.Call) -> None:
        called = _dotted(call.func)
        if called in _IGNORED:
            return
        if called in self._signatures:
            self._run_kernel(called, call)
            return
        out = next((each.value for each in call.keywords if each.arg == "out"), None)
        if not called.startswith("extern_kernels.") or not isinstance(out, ast.Name):
            raise UnknownKernelsError(f"it calls {called}")
        takes = self._taken(call)
        result = Version(self._now[out.id].numel)
        self._calls.append(Call(called, takes, [result], is_library=True))
        self._write(out.id, result)

    def _run_kernel(self, name: str, call: ast.Call) -> None:
        parameters = self._signatures[name]
        if len(parameters) != len(call.args):
            raise UnknownKernelsError(f"{name} is called with another number of arguments")
        takes, writes = [], []
        for parameter, argument in zip(parameters, call.args, strict=True):
            if "ptr" not in parameter:
                continue  # a size
            buffer = argument.args[0] if isinstance(argument, ast.Call) else argument
            if not isinstance(buffer, ast.Name):
                raise UnknownKernelsError(f"{name} is called with {ast.unparse(argument)}")
            whole = self._whole.get(buffer.id, buffer.id)
            held = self._now[whole]
            # What is written once more may keep some of what it held; memory of others does not.
            is_read = not parameter.startswith("out_") or whole in self._written
            if is_read and held.is_there:
                takes.append(held)
            if not parameter.startswith("in_ptr"):
                writes.append(whole)
        gives = []
        for whole in dict.fromkeys(writes):
            made = Version(self._now[whole].numel)
            gives.append(made)
            self._write(whole, made)
        self._calls.append(Call(name, takes, gives, is_library=False))

    def _write(self, name: str, made: Version) -> None:
        self._now[name] = made
        self._written.add(name)

    def _taken(self, call: ast.Call) -> list[Version]:
        keywords = [each.value for each in call.keywords if each.arg != "out"]
        found = [self._version(each) for each in [*call.args, *keywords]]
        return [each for each in found if each is not None]

    def _version(self, value: ast.expr) -> Version | None:
        while isinstance(value, ast.Call) and value.args:
            value = value.args[0]
        if not isinstance(value, ast.Name):
            return None
        return self._now.get(self._whole.get(value.id, value.id))


def _line(statement: ast.stmt) -> str:
    return ast.unparse(statement).partition("\n")[0][:80]


def _size(value: ast.expr) -> int | None:
    try:
        return math.prod(map(int, ast.literal_eval(value)))
    except (ValueError, TypeError):  # a size that is only known when it runs
        return None
