"""What is known of a model's modules without running it: their names, and perhaps their classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

ModuleKind = Literal["standard", "sequence", "list", "custom"]
"""What may run in a module: "standard", what torch wrote for it; "sequence", only its children, in
their order; "list", nothing, because it is never called; "custom", anything."""

_TORCH = "torch.nn.modules."
_SEQUENTIAL = _TORCH + "container.Sequential"
_NEVER_CALLED = _TORCH + "module.Module"  # the owner of the forward of a class without one

_STANDARD_NAMES = re.compile(
    r"weight|bias|in_proj_(weight|bias)|[qkv]_proj_weight|bias_[kv]|(weight|bias)_[ih]h(_l\d+)?"
    r"(_reverse)?|weight_hr_l\d+(_reverse)?"
)
_STANDARD_OPS = re.compile(
    r"(T|Addmm|Mm|Linear|MkldnnLinear|Bilinear|PreluKernel|Embedding|EmbeddingBag|"
    r"\w*Convolution\w*|\w*Norm\w*|\w*Rnn\w*)Backward\d"
)

# Operations of modules without parameters whose class is not called like the operation.
_OPS_OF = {
    "AdaptiveAvgPool1d": ("Mean", "AdaptiveAvgPool2D", "Squeeze", "Unsqueeze"),
    "AdaptiveAvgPool2d": ("Mean",),
    "AdaptiveAvgPool3d": ("Mean",),
    "AlphaDropout": ("Mul", "Add"),
    "AvgPool1d": ("Squeeze", "Unsqueeze", "AvgPool2D"),
    "ConstantPad1d": ("ConstantPadNd",),
    "CrossEntropyLoss": ("LogSoftmax", "NllLoss"),
    "Dropout": ("Mul", "NativeDropout"),
    "Flatten": ("View", "UnsafeView", "ReshapeAlias", "Clone"),
    "MaxPool1d": ("Squeeze", "Unsqueeze", "MaxPool2D"),
    "SELU": ("Elu",),
    "Softmax2d": ("Softmax",),
    "Unflatten": ("View",),
    "_BatchNorm": ("NativeBatchNorm", "CudnnBatchNorm"),
    "_ConstantPadNd": ("ConstantPadNd",),
    "LayerNorm": ("NativeLayerNorm",),
    "GroupNorm": ("NativeGroupNorm",),
}
_DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout")


def runs_op(module_class: str, op: str, with_constant: bool) -> bool | None:
    """Whether a module without parameters runs an operation.

    Args:
        module_class: As `module_classes` gives it.
        op: The class name of an autograd node.
        with_constant: Whether it has an operand that needs no grad.

    Returns:
        Whether it does; None for a class that torch did not write.
    """
    if not module_class.startswith(_TORCH):
        return None
    name = module_class.rpartition(".")[2]
    if name in _DROPOUTS:
        return op.startswith("NativeDropout") or (op == "MulBackward0" and with_constant)
    if op == "MeanBackward0":  # of all numbers, as in a loss
        return False
    others = tuple(f"{other}Backward" for other in _OPS_OF.get(name, ()))
    return op.lower().startswith(name.lower()) or op.startswith(others or ("-",))


def is_standard_op(op: str) -> bool:
    """Whether torch's own layers hand their parameters to this operation."""
    return _STANDARD_OPS.fullmatch(op) is not None


class ModuleTree:
    """The modules that are known, as a tree of dotted paths; the root's is empty."""

    def __init__(
        self,
        parameters: Iterable[str],
        ops: Mapping[str, set[str]],
        classes: Mapping[str, str] | None,
    ) -> None:
        """Build the tree.

        Args:
            parameters: The dotted names of the parameters.
            ops: Module path -> the operations that consume its parameters.
            classes: As `module_classes` gives them; None when only the parameters' names are known.
        """
        self.classes = classes or {}
        self._ops = ops
        self.own: dict[str, set[str]] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._lists: set[str] = set()
        for name in parameters:
            path, _, own = name.rpartition(".")
            self.own.setdefault(path, set()).add(own)
        for path in [*self.classes, *self.own]:
            self._add(path)
        if not self.classes:
            self._fill_numbers()
        self.with_parameters = {each for path in self.own for each in ancestors(path)}
        self._kinds: dict[str, ModuleKind] = {}

    def _add(self, path: str) -> None:
        while path:
            parent, _, last = path.rpartition(".")
            self._children.setdefault(parent, {}).setdefault(last)
            path = parent

    def _fill_numbers(self) -> None:
        """A module with numbered children has those without parameters between them, too."""
        for path, children in self._children.items():
            if all(child.isdigit() for child in children):
                most = max(map(int, children))
                if most < 2 * len(children) + 16:
                    self._children[path] = dict.fromkeys(map(str, range(most + 1)))

    def children(self, path: str) -> list[str]:
        """The names of a module's children, in their order."""
        return list(self._children.get(path, ()))

    def note_list(self, path: str) -> None:
        """Note that a module, of which only the name is known, turned out to be no sequence."""
        if path not in self.classes:
            self._lists.add(path)
            self._kinds.pop(path, None)

    def kind(self, path: str) -> ModuleKind:
        """What may run in a module."""
        found = self._kinds.get(path)
        if found is None:
            found = self._kinds[path] = self._kind(path)
        return found

    def _kind(self, path: str) -> ModuleKind:
        known = self.classes.get(path)
        own = self.own.get(path, set())
        children = self._children.get(path, {})
        if known is not None:
            if known == _NEVER_CALLED:
                return "list"
            if known == _SEQUENTIAL:
                return "sequence"
            return "standard" if known.startswith(_TORCH) and own else "custom"
        if path in self._lists:
            return "list"
        if not own and children and all(child.isdigit() for child in children):
            return "sequence"
        is_standard = (
            path != ""
            and own
            and all(_STANDARD_NAMES.fullmatch(name) for name in own)
            and any(map(is_standard_op, self._ops.get(path, ())))
        )
        return "standard" if is_standard else "custom"

    def is_recurrent(self, path: str) -> bool:
        """Whether it is one of torch's recurrent layers or cells, or its attention.

        They run many operations between those that consume their parameters.
        """
        own = self.own.get(path, ())
        return self.kind(path) == "standard" and any("_" in name for name in own)

    def computes_first(self, path: str) -> bool:
        """Whether a module may compute before it consumes a parameter, as an RMS norm does.

        It is one that torch did not write, with parameters of its own and none further in.
        """
        return self.kind(path) == "custom" and path in self.own and bool(path)

    def likeness(self, path: str) -> Any:
        """What modules that run the same code have in common: their class, or their parameters."""
        known = self.classes.get(path)
        if known is not None:
            return known
        prefix = f"{path}." if path else ""
        return tuple(
            f"{below[len(prefix) :]}:{','.join(sorted(own))}"
            for below, own in self.own.items()
            if below == path or below.startswith(prefix)
        )

    def called(self, path: str) -> str:
        """The nearest module, from this one outwards, that may run operations of its own."""
        while path and self.kind(path) in ("list", "sequence"):
            path = path.rpartition(".")[0]
        return path

    def without_parameters(self, path: str) -> list[str]:
        """The names of a module's children that have no parameters."""
        prefix = f"{path}." if path else ""
        return [c for c in self.children(path) if prefix + c not in self.with_parameters]

    def between(self, path: str, before: str | None, after: str | None) -> list[str]:
        """The children without parameters that a sequence runs between two of its children."""
        children = self.children(path)
        low = children.index(before) + 1 if before in children else 0
        high = children.index(after) if after in children else len(children)
        without = set(self.without_parameters(path))
        return [child for child in children[low:high] if child in without]

    def runs_in_child(self, path: str, op: str, with_constant: bool) -> bool:
        """Whether a module has a child without parameters that runs an operation."""
        prefix = f"{path}." if path else ""
        children = self.without_parameters(path) if self.classes else ()
        return any(self.runs(prefix + child, op, with_constant) for child in children)

    def runs(self, path: str, op: str, with_constant: bool) -> bool | None:
        """Whether a module without parameters runs an operation; None when that is not known."""
        known = self.classes.get(path)
        return None if known is None else runs_op(known, op, with_constant)


def ancestors(path: str) -> list[str]:
    """A path and the paths around it, innermost first, the root's at the end."""
    found = [path]
    while path:
        path = path.rpartition(".")[0]
        found.append(path)
    return found


def common_ancestor(paths: Sequence[str]) -> str:
    """The innermost module around all of these."""
    around = set.intersection(*(set(ancestors(path)) for path in paths))
    return max(around, key=len)
