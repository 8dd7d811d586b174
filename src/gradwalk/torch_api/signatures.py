"""Argument names and forward signatures behind the `...Backward0` classes of the installed torch.

torch ships the file its own code generator reads, `derivatives.yaml`: one entry per differentiable
operator, with the operator's signature and the inputs that have a derivative. The inputs with a
derivative, in signature order, are the entries of `next_functions`. torch's own loader takes about
two seconds and needs PyYAML, so the few line forms that matter here are read directly;
`tests/torch_api/test_signatures.py` compares the result with torch's loader for every class.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from .capability import capability


@dataclass(frozen=True)
class Argument:
    """One differentiable forward argument: its name, and whether it is a list of tensors."""

    name: str
    is_list: bool


@dataclass(frozen=True)
class Signature:
    """What torch declares about one backward class."""

    forward: str  # the forward operator, e.g. ``mul.Tensor(Tensor self, Tensor other) -> Tensor``.
    # The differentiable arguments, in the order of ``next_functions``.
    arguments: tuple[Argument, ...]
    # Argument -> the derivative as torch's code generator reads it, in C++.
    formulas: dict[str, str] = field(default_factory=dict, hash=False)


# Nodes that torch writes by hand, so that no entry of derivatives.yaml describes them.
_HAND_WRITTEN = {
    "CopyBackwards": Signature(
        "copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)",
        (Argument("self", False), Argument("src", False)),
    )
}


def signature(op: str) -> Signature | None:
    """Return the signature of a class such as "MulBackward0"; None for custom ones."""
    # "ViewBackward0_copy" is the same formula for the copying variant of a view operator.
    return _signatures().get(op.removesuffix("_copy")) or _HAND_WRITTEN.get(op)


_ZEROS = re.compile(
    r"Tensor\(\)|(at::)?zeros(_like|_symint)?\((\w+|\w+\.sym_sizes\(\), grad\.options\(\))\)"
)


def states_zeros(formula: str) -> bool:
    """Whether torch's formula says that a derivative is zero, whatever the values are."""
    return _ZEROS.fullmatch(formula) is not None


@functools.cache
def tensor_arguments(op: str | None) -> frozenset[str]:
    """Return the names of the tensor arguments of a backward class's forward call."""
    found = signature(op) if op is not None else None
    if found is None:
        return frozenset()
    arguments = found.forward.partition(" -> ")[0]
    return frozenset(re.findall(r"\bTensor(?:\([^)]*\))?[?\[\]]* (\w+)", arguments))


@functools.cache
def call_arguments(op: str) -> frozenset[str]:
    """Return the names of all arguments of a backward class's forward call."""
    found = signature(op)
    if found is None:
        return frozenset()
    return frozenset(each.name for each in _declared_arguments(found.forward))


@functools.cache
def argument_names(op: str, inputs: int) -> tuple[str | None, ...]:
    """Return the forward argument of each of a node's next functions; None where unknown."""
    found = signature(op)
    if found is None:
        return (None,) * inputs
    lists = sum(argument.is_list for argument in found.arguments)
    spare = inputs - (len(found.arguments) - lists)
    if lists > 1 or spare < 0 or (lists == 0 and spare > 0):
        return (None,) * inputs
    names: list[str | None] = []
    for argument in found.arguments:
        if argument.is_list:
            names += [f"{argument.name}[{i}]" for i in range(spare)]
        else:
            names.append(argument.name)
    return tuple(names)


@functools.cache
def arguments_without_grad(
    op: str, needing: tuple[bool, ...]
) -> tuple[frozenset[str], dict[str | None, int]]:
    """Return the tensor arguments of a forward call that do not require grad.

    ``needing`` says which of the node's next functions exist. Return the names of those that may
    need no grad, and by name which next function is missing for one that certainly needs none.
    """
    numbers: dict[str | None, int] = {}
    for nr, name in enumerate(argument_names(op, len(needing))):
        numbers.setdefault(name, nr)
    without = {name: nr for name, nr in numbers.items() if not needing[nr]}
    return tensor_arguments(op) - (numbers.keys() - without.keys()), without


if TYPE_CHECKING:
    from torch._ops import OpOverload

    Operator = OpOverload
else:
    Operator = type(torch.ops.aten.add.Tensor)  # the class of operators in exported programs


class UnknownSchema(NamedTuple):
    """Stands for the schema of an operator that torch does not give."""

    name: str
    arguments: Sequence[Any] = ()
    returns: Sequence[Any] = ()
    is_mutable: bool = True


@capability(
    "OpOverload._schema",
    otherwise=lambda operator: UnknownSchema(str(operator)),
    lost="The arguments of operators are unknown",
)
def schema_of(read: Any) -> Callable[[Operator], torch.FunctionSchema]:
    """Return torch's schema of an operator; one without arguments if it is unknown."""
    if [each.name for each in read(torch.ops.aten.mm.default).arguments] != ["self", "mat2"]:
        raise ValueError("torch gives other arguments.")
    return cast("Callable[[Operator], torch.FunctionSchema]", read)


def declared_arguments(operator: Operator) -> dict[str, bool]:
    """Return the names of an operator's arguments, and whether each is a tensor."""
    declared = schema_of(operator).arguments
    return {each.name: isinstance(each.type, torch.TensorType) for each in declared}


@functools.cache
def written_arguments(operator: Operator) -> frozenset[str]:
    """Return the names of the arguments that an operator writes to."""
    declared = schema_of(operator).arguments
    return frozenset(each.name for each in declared if each.alias_info and each.alias_info.is_write)


@functools.cache
def _signatures() -> dict[str, Signature]:
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(spec.submodule_search_locations[0])
    path = folder / "packaged" / "autograd" / "derivatives.yaml"
    return parse_derivatives(path.read_text(encoding="utf-8")) if path.exists() else {}


_ENTRY = re.compile(r"^- name: (.*)$", re.MULTILINE)
_FIELD = re.compile(r"^( {2,6})(\w[\w, ]*):(?=\s)", re.MULTILINE)
_COMMENT = re.compile(r"^ *#.*\n", re.MULTILINE)


def parse_derivatives(text: str) -> dict[str, Signature]:
    """Read the text of a ``derivatives.yaml``: the signature of each backward class.

    Classes are numbered as torch's code generator numbers them: per operator name and dispatch key,
    in the order of the file.
    """
    signatures: dict[str, Signature] = {}
    counter: Counter[str] = Counter()
    parts = _ENTRY.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        forward = name.strip()
        declared = _declared_arguments(forward)
        for key, fields in _fields_by_dispatch_key(body):
            differentiable = tuple(a for a in declared if a.name in fields)
            if not differentiable:
                continue
            prefix = _class_prefix(forward) + ("" if key == "Default" else key)
            formulas = {each.name: fields[each.name] for each in differentiable}
            signatures[f"{prefix}{counter[prefix]}"] = Signature(forward, differentiable, formulas)
            counter[prefix] += 1
    return signatures


def _declared_arguments(forward: str) -> list[Argument]:
    inside = forward[forward.index("(") + 1 : forward.rindex(") ->")]
    arguments = []
    for part in re.split(r",\s*(?![^(\[]*[)\]])", inside):
        kind, space, name = part.split("=")[0].strip().rpartition(" ")
        if space:
            arguments.append(Argument(name, kind.endswith("[]")))
    return arguments


def _fields_by_dispatch_key(body: str) -> list[tuple[str, dict[str, str]]]:
    """Return the arguments with a formula, and the formulas, once per dispatch key."""
    groups: list[tuple[str, dict[str, str]]] = [("Default", {})]
    dispatched = False
    # The text between two fields is the rest of a formula that takes several lines.
    _, *parts = _FIELD.split(_COMMENT.sub("", body))
    for indent, names, formula in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        if len(indent) == 2 and names == "dispatch":
            groups, dispatched = [], True
        elif dispatched and len(indent) == 4:
            groups.append((names, {}))
        elif (text := _plain_scalar(formula)) != "non_differentiable":
            groups[-1][1].update((name.strip(), text) for name in names.split(","))
    return groups


def _plain_scalar(written: str) -> str:
    """Return a YAML value on one line, without quotes or a trailing comment."""
    text = " ".join(written.split())
    return text[1:-1] if text[:1] in {"'", '"'} else text.partition(" #")[0]


def _class_prefix(forward: str) -> str:
    name = re.split(r"[.(]", forward, maxsplit=1)[0]
    camel = "".join(part.title() for part in name.split("_"))
    return (camel + "Backward").replace("ForwardBackward", "Backward")
