"""The autograd graph as a Graphviz picture, a drop-in replacement for torchviz's ``make_dot``.

It writes torchviz's statements in torchviz's order, so that Graphviz draws the same picture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import Node

from ..schema.json_values import well_formed
from ..torch_api.nodes import leaf_tensor, node_class, saved_names
from ..torch_api.reading import base_of
from ..torch_api.release import free_without_recursion
from ..torch_api.saved_tensors import packed_value, saved_value
from ..types import Outputs

if TYPE_CHECKING:
    import graphviz

_OUTPUT, _BASE, _LEAF, _SAVED = "darkolivegreen1", "darkolivegreen3", "lightblue", "orange"
_NODE_STYLE = {
    "style": "filled",
    "shape": "box",
    "align": "left",
    "fontsize": "10",
    "ranksep": "0.1",
    "height": "0.2",
    "fontname": "monospace",
}
_LONGEST = 4_000  # characters of a label; Graphviz reads no text of more than 16,384 bytes
_INCHES_PER_STATEMENT, _LEAST_INCHES = 0.15, 12


def make_dot(
    var: Outputs,
    params: Mapping[str, torch.Tensor] | None = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_attr_chars: int = 50,
) -> graphviz.Digraph:
    """Draw the autograd graph behind some tensors with Graphviz, as torchviz does.

    Nodes of the graph are grey; outputs are green, with the base of an output that is a view in
    dark green; leaves are blue; saved tensors are orange. Unlike torchviz, this takes graphs of any
    depth, and draws what backward has already freed as "freed".

    Args:
        var (Outputs): A tensor, or a tuple, list or dict of tensors.
        params (Mapping[str, torch.Tensor], optional): What to call leaves: names to tensors, e.g.
            ``dict(model.named_parameters())``. None names no leaf.
        show_attrs (bool, optional): Whether to write on each node what it saved besides tensors.
            Default: ``False``.
        show_saved (bool, optional): Whether to draw the tensors that torch's own nodes saved. Those
            that a custom ``autograd.Function`` saved are always drawn. This calls the unpack hooks
            of saved tensors; activation checkpointing, for example, runs its forward again.
            Default: ``False``.
        max_attr_chars (int, optional): The largest number of characters of a saved value; at least
            3. Default: ``50``.

    Returns:
        A ``graphviz.Digraph``: a notebook draws it, ``.render()`` writes a file, and ``.source`` is
        the DOT text.

    Raises:
        ImportError: The graphviz package is not installed.
        TypeError: ``var`` holds something other than tensors, or ``params`` is not a mapping from
            names to tensors.

    Example::

        >>> import torch
        >>> from gradwalk import make_dot
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> picture = make_dot(w * 2, params={"w": w})
        >>> "MulBackward0" in picture.source
        True
    """
    try:
        import graphviz  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "make_dot() needs the graphviz package, which is not installed. "
            "Install it with: pip install graphviz"
        ) from error
    tensors = list(_tensors(var))
    dot = graphviz.Digraph(node_attr=_NODE_STYLE)
    drawing = _Drawing(dot, _leaf_names(params), show_attrs, show_saved, max_attr_chars)
    try:
        with _random_state_kept():  # unpacking a saved tensor may run a user's code
            for tensor in tensors:
                drawing.add_output(tensor)
    finally:
        free_without_recursion(drawing.walked)
    inches = max(_LEAST_INCHES, len(dot.body) * _INCHES_PER_STATEMENT)
    dot.graph_attr["size"] = f"{inches},{inches}"
    return dot


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, (tuple, list, Mapping)):
        for value in given.values() if isinstance(given, Mapping) else given:
            yield from _tensors(value)
    else:
        raise TypeError(
            f"make_dot() was given a value of type {type(given).__name__}, which is not a tensor. "
            "Pass the tensor you would call backward() on, or a tuple, list or dict of tensors."
        )


def _leaf_names(params: Mapping[str, torch.Tensor] | None) -> dict[int, str]:
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(
            f"make_dot() was given params of type {type(params).__name__}, but it needs a dict "
            "from names to tensors. Pass dict(model.named_parameters()), for example."
        )
    for name, value in params.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"make_dot() was given, as params[{name!r}], a value of type "
                f"{type(value).__name__}, but params may only hold tensors, as "
                "dict(model.named_parameters()) does."
            )
    return {id(tensor): str(name) for name, tensor in params.items()}


def _random_state_kept() -> AbstractContextManager[None]:
    devices = range(torch.cuda.device_count()) if _uses_cuda() else ()
    return torch.random.fork_rng(devices)


def _uses_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@dataclass
class _Drawing:
    """Writes statements."""

    dot: graphviz.Digraph  # the Graphviz graph
    names: dict[int, str]  # id() of a tensor -> the user's name for it
    show_attrs: bool  # whether to write saved values on nodes
    show_saved: bool  # whether to draw the saved tensors of torch's own nodes
    max_attr_chars: int  # the largest number of characters of a saved value
    walked: dict[Node, None] = field(default_factory=dict)  # the drawn autograd nodes, in order
    # Ids of the tensors that are not drawn as an output again.
    drawn: set[int] = field(default_factory=set)
    # Id() of a node or tensor -> its key in ``dot``.
    keys: dict[int, str] = field(default_factory=dict)
    # The objects that have a key, kept so that their id() is not reused.
    alive: list[object] = field(default_factory=list)

    def add_output(self, tensor: torch.Tensor, color: str = _OUTPUT) -> None:
        """Draw a tensor and its graph, and the same for its base if it is a view."""
        if id(tensor) in self.drawn:
            return
        self._draw_tensor(tensor, color)
        if tensor.grad_fn is not None:
            self._walk(tensor.grad_fn)
            self.dot.edge(self._key(tensor.grad_fn), self._key(tensor))
        base = base_of(tensor)
        if base is not None:  # a base is never a view itself
            self.add_output(base, _BASE)
            self.dot.edge(self._key(base), self._key(tensor), style="dotted")

    def _walk(self, root: Node) -> None:
        """Draw the graph depth-first, without recursion."""
        stack = [self._draw_node(root)]
        while stack:
            child = next(stack[-1], None)
            if child is None:
                stack.pop()
            elif child not in self.walked:
                stack.append(self._draw_node(child))

    def _draw_node(self, node: Node) -> Iterator[Node]:
        """Draw a node; yield each next node at the point where it is to be drawn."""
        if node in self.walked:
            return
        self.walked[node] = None
        if self.show_saved:
            self._draw_saved(node)
        leaf = leaf_tensor(node)
        if leaf is not None:
            self._draw_tensor(leaf, _LEAF)
            self.dot.edge(self._key(leaf), self._key(node))
        self.dot.node(self._key(node), _readable(self._node_label(node)))
        for child, _ in node.next_functions:
            if child is not None:
                self.dot.edge(self._key(child), self._key(node))
                yield child
        if node_class(type(node)).is_function:
            self._draw_saved_by_function(node)

    def _draw_saved(self, node: Node) -> None:
        for name in sorted(saved_names(type(node))):
            value = _unless_lost(functools.partial(saved_value, node, name))
            if isinstance(value, tuple):
                for i, each in enumerate(value):
                    self._draw_saved_tensor(node, each, f"{name}[{i}]")
            else:
                self._draw_saved_tensor(node, value, name)
                if isinstance(value, torch.Tensor):  # those in tuples may be drawn as outputs yet
                    self.drawn.add(id(value))

    def _draw_saved_tensor(self, node: Node, value: Any, name: str) -> None:
        if isinstance(value, (torch.Tensor, _Lost)):
            self.dot.edge(self._key(node), self._key(value), dir="none")
            label = _readable(_tensor_text(name, value))
            self.dot.node(self._key(value), label, fillcolor=_SAVED)

    def _draw_saved_by_function(self, node: Any) -> None:
        saved = _unless_lost(lambda: node.saved_tensors)
        for value in saved if isinstance(saved, tuple) else (saved,):
            if value is None:  # save_for_backward(None) is allowed
                continue
            self.dot.edge(self._key(value), self._key(node), dir="none")
            self._draw_tensor(value, _SAVED)

    def _draw_tensor(self, tensor: torch.Tensor | _Lost, color: str) -> None:
        self.drawn.add(id(tensor))
        label = _readable(_tensor_text(self.names.get(id(tensor), ""), tensor))
        self.dot.node(self._key(tensor), label, fillcolor=color)

    def _key(self, drawn: object) -> str:
        key = self.keys.get(id(drawn))
        if key is None:
            key = self.keys[id(drawn)] = f"n{len(self.keys)}"
            self.alive.append(drawn)
        return key

    def _node_label(self, node: Node) -> str:
        title = type(node).__name__
        if not self.show_attrs:
            return title
        rows = {name: _attribute_text(node, name) for name in sorted(saved_names(type(node)))}
        return f"{title}\n{_table(rows, len(title), self.max_attr_chars)}" if rows else title


@dataclass(frozen=True, eq=False)
class _Lost:
    """A saved tensor that cannot be read."""

    why: str  # the reason, in a word or two


def _unless_lost(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # a user's hook may raise anything
        if "modified by an inplace operation" in str(error):
            return _Lost("changed in place")
        return _Lost("freed" if "second time" in str(error) else "not unpacked")


def _readable(label: str) -> str:
    """Shorten a label to what Graphviz reads, and make it encodable."""
    return str(well_formed(label if len(label) <= _LONGEST else f"{label[:_LONGEST]}…"))


def _tensor_text(name: str, value: torch.Tensor | _Lost) -> str:
    if isinstance(value, _Lost):
        return f"{name}\n {value.why}"
    try:
        return f"{name}\n ({', '.join(map(str, value.size()))})"
    except RuntimeError:  # a nested tensor has no one size
        return f"{name}\n (nested)"


def _attribute_text(node: Node, name: str) -> str:
    try:
        packed = packed_value(node, name)
    except RuntimeError:  # torch raises here for a list of tensors that is gone
        packed = None
    for raw in packed if isinstance(packed, tuple) else (packed,):
        if getattr(raw, "unpack_hook", None) is not None:  # nothing need be unpacked to say this
            return "[saved tensors]" if isinstance(packed, tuple) else "[saved tensor]"
    value = _unless_lost(functools.partial(saved_value, node, name))
    if isinstance(value, torch.Tensor):
        return "[saved tensor]"
    if isinstance(value, tuple) and any(isinstance(each, torch.Tensor) for each in value):
        return "[saved tensors]"
    return f"[{value.why}]" if isinstance(value, _Lost) else str(value)


def _table(rows: dict[str, str], title_width: int, max_chars: int) -> str:
    """A table of names and values, cut to ``max_chars``, under a rule."""
    left = max(map(len, rows))
    right = min(max(map(len, rows.values())), max(max_chars, 3))
    lines = ["-" * max(left + right + 2, title_width)]
    for name, value in rows.items():
        cut = value if len(value) <= right else f"{value[: right - 3]}..."
        lines.append(f"{name:<{left}}: {cut:>{right}}")
    return "\n".join(lines)
