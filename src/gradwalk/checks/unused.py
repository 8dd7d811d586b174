"""Findings about what a program made and did not use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import CodeType, FunctionType

import torch

from ..graph.adjacency import walk
from ..graph.lost_variables import lost_variable
from ..result import make
from ..schema.findings import Severity
from ..torch_api.modules import module_hooks, own_buffers
from ..torch_api.nodes import Edge, gradient_edge, leaf_tensor
from ..torch_api.reading import hooks_of
from ..torch_api.saved_tensors import is_freed
from ..tracing.records import modules_ran
from ..tracing.source_line import is_installed
from .context import CheckContext
from .finding import Finding

_LEARNED = re.compile(
    "scale|gamma|beta|alpha|bias|weights?|temperature|gain|shift|prompt|query|embeddings?"
)
"""Words in the names of tensors that mostly are learned."""
_TERMS = re.compile(
    "loss|losses|kl|kld|aux|penalty|reg|regulari[sz]er|regulari[sz]ation|entropy|l[12]"
)
_MOST_NODES = 2000


def unused_findings(context: CheckContext) -> Iterator[Finding]:
    """Find terms that no loss adds, tensors that no optimizer sees, casts that drop a part."""
    yield from _terms(context)
    yield from _not_learned(context)
    yield from _real_parts(context)
    yield from _hooks_without_result(context)


def _has_word(name: str, words: re.Pattern[str]) -> bool:
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return any(map(words.fullmatch, re.findall(r"[a-z]+\d?", split)))


def _terms(context: CheckContext) -> Iterator[Finding]:
    """A variable that is called a loss, requires grad, and is not a part of this one."""
    inside = set(context.captured.nodes)
    for edge, name, tensor in _computed(context):
        if edge[0] in inside or tensor.numel() != 1:
            continue
        if not _has_word(name.rpartition(".")[2], _TERMS):
            continue
        seen = []
        for node in walk([edge[0]], lambda each: (to for to, _ in each.next_functions if to)):
            seen.append(node)
            if len(seen) > _MOST_NODES:
                break
        # A loss of its own, as of another network, shares parameters and no results.
        shared = [each for each in seen if each in inside and leaf_tensor(each) is None]
        if not shared or any(map(is_freed, seen)):
            continue
        message = (
            f"{name} requires grad and uses results of this graph, but the loss leaves it out. If "
            "it should train, add it to the loss."
        )
        yield make(Finding, "unused-result", "info", [], message)


def _computed(context: CheckContext) -> Iterator[tuple[Edge, str, torch.Tensor]]:
    """Yield the tensors with a graph that variables, and attributes of modules, hold."""
    for edge, name in context.called.edges.items():
        reference = context.called.tensors.get(edge)
        tensor = reference() if reference is not None else None
        if tensor is not None:
            yield edge, name, tensor
    for known, _, path in context.called.places.values():
        module = known()
        for name, value in vars(module).items() if module is not None else ():
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                yield gradient_edge(value), f"{path}.{name}".lstrip("."), value


def _not_learned(context: CheckContext) -> Iterator[Finding]:
    """Buffers and plain tensors of a module of the program that the loss takes as constants."""
    taken = {
        id(tensor): node
        for node, seen in context.captured.annotations.items()
        for each in seen.constants
        if each.tensor is not None and (tensor := each.tensor()) is not None
    }
    ran = {id(module) for module in modules_ran()}
    for reference, _, path in context.called.places.values():
        module = reference()
        if module is None or type(module).__module__.startswith("torch."):
            continue
        buffers = own_buffers(module)
        for name, value in [*buffers.items(), *vars(module).items()]:
            if not isinstance(value, torch.Tensor):
                continue
            has_run = name not in buffers and id(module) in ran
            if id(value) not in taken and not has_run:
                continue
            if (
                value.requires_grad
                or not value.is_floating_point()
                or not _has_word(name, _LEARNED)
            ):
                continue
            node = taken.get(id(value))
            what = "a buffer" if name in buffers else "a plain tensor"
            whole = f"{path}.{name}".lstrip(".")
            by = "" if node is None else f" for {context.place(node)}"
            message = (
                f"{whole} is {what}, and a constant{by}. If it should be learned, write "
                f"self.{name} = nn.Parameter(...)."
            )
            nodes = [] if node is None else [node]
            yield make(Finding, "unused-result", "info", nodes, message)


def _real_parts(context: CheckContext) -> Iterator[Finding]:
    """Casts of complex numbers to real ones."""
    graph = context.captured.graph
    for node, _ in context.nodes_of(("ToCopyBackward0",)):
        before = [graph.nodes[child]["dtype"] or "" for child in graph.succ[node]]
        is_real = "complex" not in (graph.nodes[node]["dtype"] or "")
        if is_real and any("complex" in each for each in before):
            message = (
                f"{context.place(node)} casts complex numbers to {graph.nodes[node]['dtype']}, "
                "which drops the imaginary part: it gets no gradient. Use abs(), or "
                "torch.view_as_real() for both parts."
            )
            yield make(Finding, "unused-result", "warning", [node], message)


def _hooks_without_result(context: CheckContext) -> Iterator[Finding]:
    """Hooks that compute a new value in a variable, and return None."""
    hooks: dict[CodeType, tuple[str, str]] = {}
    for node in context.leaves.values():
        leaf = context.leaf(node)
        for hook in (hooks_of(leaf) or {}).values() if leaf is not None else ():
            hooks |= {code: (context.name(node), "gradient") for code in _codes(hook)}
    for reference, variable, path in context.called.places.values():
        module = reference()
        for what, each in module_hooks(module) if module is not None else ():
            hooks |= dict.fromkeys(_codes(each), (path or variable, what))
    for code, (name, what) in hooks.items():
        lost = lost_variable(code)
        if lost is not None:
            message = (
                f"The hook {code.co_name}() of {name} computes {lost} and returns None, so the "
                f"{what} stays as it is. To change it, end the hook with return {lost}."
            )
            is_own = lost in code.co_varnames[: code.co_argcount]
            severity: Severity = "warning" if is_own else "info"
            yield make(Finding, "unused-result", severity, [], message)


def _codes(hook: object) -> Iterator[CodeType]:
    function = getattr(hook, "__func__", hook)
    if isinstance(function, FunctionType) and not is_installed(function.__code__.co_filename):
        yield function.__code__
