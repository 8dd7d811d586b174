"""Read the backward program of a compiled node.

``torch.compile`` puts a whole program behind one node, ``CompiledFunctionBackward``. AOTAutograd
keeps the program as an FX graph until backward runs and the backend compiles it. So this is the
program before fusion. Nothing here compiles, runs or changes it.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.autograd.graph import Node
from torch.fx import Graph, GraphModule
from torch.fx import Node as FxNode

from .capability import capability, is_there, optional
from .nodes import custom_function, donates_buffers, input_numbers, is_compiled, outputs_metadata
from .saved_tensors import packed_by_function, unpack_hook

_FRAMEWORK = f"torch {torch.__version__}"
_CACHED = (
    "This compiled graph came from torch's compile cache, which holds its backward program in "
    "packed form only. To open it, set torch._inductor.config.force_disable_caches = True, call "
    "torch._dynamo.reset() and run the forward pass again."
)


@capability(
    "torch._C._dynamo.eval_frame.get_eval_frame_callback",
    otherwise=lambda: None,
    lost="A widget that is made inside of compiled code is not refused",
)
def _compiler(callback: Any) -> Callable[[], Any]:
    """Return the function that compiles the frames of this thread; not callable if none does."""
    if callable(callback()):
        raise ValueError("torch compiles where nothing is compiled.")
    return cast("Callable[[], Any]", callback)


def refuse_while_compiling(what: str) -> None:
    """Raise an error inside a function that `torch.compile` compiles; ``what`` was called.

    Dynamo then compiles each Python function that runs, those of traitlets and gradwalk included.
    """
    if callable(_compiler()):
        raise RuntimeError(
            f"{what} was called inside a function that torch.compile compiles. Return the tensor "
            "and call it outside, or call it in a function decorated with @torch.compiler.disable."
        )


class CannotOpenError(ValueError):
    """A node's program cannot be read or run; the message says why."""


@dataclass(frozen=True)
class CompiledBackward:
    """The backward program of a compiled node, mapped to the node."""

    graph: Graph  # AOTAutograd's FX graph
    module: GraphModule  # the module with its constants
    tangents: dict[FxNode, int]  # placeholder -> the number of the output whose gradient it is
    # The other placeholders: saved tensors and sizes, in the order of the program.
    saved: list[FxNode]
    gradients: dict[int, FxNode]  # arg_nr of the node -> the program's gradient for it, if any
    parameters: dict[str, int]  # the name of a saved placeholder -> the arg_nr whose tensor it is


def compiled_backward(node: Node) -> CompiledBackward:
    """Return the backward program of a node of the class ``CompiledFunctionBackward``."""
    if not is_compiled(node):
        raise CannotOpenError(f"{node.name()} is not a node of torch.compile.")
    try:
        return _tied(node, _program(node))
    except CannotOpenError:
        raise
    except Exception as error:  # private names and shapes of another torch
        raise CannotOpenError(
            f"The backward program of this node cannot be read in {_FRAMEWORK}: it is not laid out "
            f"there as gradwalk knows it ({type(error).__name__}: {error}). The node itself, and "
            "what flows through it, are shown as ever."
        ) from None


def _unknown(_: Any) -> Any:
    raise CannotOpenError(f"{_FRAMEWORK} does not give the backward program of compiled code.")


@capability("CompiledFunction._lazy_backward_info", otherwise=_unknown)
def _backward_info(read: Any) -> Callable[[Any], Any]:
    return cast("Callable[[Any], Any]", read)  # not tried: that needs compiled code


_prologue = optional("CompiledFunction._bw_prologue_fn")
_unchecked_tensors = optional("CompiledFunction._tensors_no_vc_check")


def _program(node: Any) -> GraphModule:
    info = _backward_info(custom_function(node))
    if info is None or hasattr(info, "bw_module_fn"):
        raise CannotOpenError(_CACHED)
    module: GraphModule = info.bw_module
    return module


_metadata: weakref.WeakKeyDictionary[GraphModule, dict[str, dict[str, Any]]]
_metadata = weakref.WeakKeyDictionary()
"""Program -> metadata by node name, from the first time the program was read."""


def _graph_of(module: GraphModule) -> Graph:
    """Return the graph of a program, with metadata from an earlier read if torch dropped it.

    torch drops shapes, modules and lines when it packs a program for its compile cache, after the
    first backward.
    """
    if any(node.meta for node in module.graph.nodes):
        if module not in _metadata:
            _metadata[module] = {node.name: node.meta for node in module.graph.nodes}
        return module.graph
    known = _metadata.get(module)
    if known is None:
        return module.graph
    graph = Graph()
    copies: dict[FxNode, FxNode] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    for node, copied in copies.items():
        copied.meta = known.get(node.name, {})
    return graph


def _tied(node: Any, module: GraphModule) -> CompiledBackward:
    cls: Any = custom_function(node)
    if getattr(cls, "maybe_subclass_metadata", None) is not None:
        raise CannotOpenError(
            "This compiled code takes or gives tensors of a subclass (such as DTensor), whose "
            "parts its backward program works on: which part is which input is not known."
        )
    graph = _graph_of(module)
    placeholders = [each for each in graph.nodes if each.op == "placeholder"]
    tangents = {each: 0 for each in placeholders if "tangents" in str(each.target)}
    places = _outputs_with_gradient(cls.metadata)
    if len(places) != len(tangents):
        raise CannotOpenError(
            f"The backward program of this node takes {len(tangents)} gradients, but the node "
            f"gives {len(places)} tensors that have one: which is which is not known."
        )
    inputs = _input_numbers(node)
    (output,) = (each for each in graph.nodes if each.op == "output")
    given = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    return CompiledBackward(
        graph,
        module,
        tangents=dict(zip(tangents, places, strict=True)),
        saved=[each for each in placeholders if each not in tangents],
        gradients={
            nr: value
            for place, nr in inputs.items()
            if place < len(given) and isinstance(value := given[place], FxNode)
        },
        parameters={
            str(each.target): inputs[place]
            for each in placeholders
            if (place := _argument(str(each.target))) in inputs
        },
    )


def _argument(name: str) -> int:
    """The place of an argument of the forward program: "primals_3" is the third."""
    number = name.removeprefix("primals_")
    return int(number) - 1 if number != name and number.isdigit() else -1


def _input_numbers(node: Any) -> dict[int, int]:
    """Place of an argument of the forward program -> which of the node's next functions it is."""
    numbers = input_numbers(node)
    if numbers is None:
        raise CannotOpenError(
            f"The compiled code has {sum(node.needs_input_grad)} arguments that need a gradient, "
            "but its node leads to another number of tensors: which is which is not known."
        )
    return numbers


def _outputs_with_gradient(metadata: Any) -> list[int]:
    """The outputs of a node whose gradients its program takes, as AOTAutograd chooses them."""
    mutated = list(metadata.mutated_inp_runtime_indices)
    found = [
        place
        for place, i in enumerate(mutated)
        if metadata.input_info[i].mutates_data and metadata.input_info[i].requires_grad
    ]
    for place, info in enumerate(metadata.output_info, len(mutated)):
        own = info.output_type.name in {"non_alias", "unsafe_view_alias", "custom_function_view"}
        needs = getattr(info, "requires_grad_for_backward", info.requires_grad)
        if own and issubclass(info.raw_type, torch.Tensor) and needs:
            found.append(place)
    first = len(mutated) + len(metadata.output_info)
    return [*found, *range(first, first + metadata.num_intermediate_bases)]


def is_call(node: FxNode) -> bool:
    """Whether a node of a backward program works on tensors: no getitem, and no size."""
    called = node.op.startswith("call_") and node.target is not operator.getitem
    return called and gives_tensors(node)


def gives_tensors(node: FxNode) -> bool:
    """Whether a node of a program gives tensors, or nothing, rather than a size."""
    value = node.meta.get("val")
    return value is None or hasattr(value, "shape") or isinstance(value, (tuple, list))


def calls_in(node: Node) -> list[FxNode]:
    """The calls of the backward program of a compiled node; none where it cannot be read."""
    try:
        return [each for each in _graph_of(_program(node)).nodes if is_call(each)]
    except Exception:  # of another torch, or cached: `compiled_backward` says why
        return []


def is_recomputed(call: FxNode) -> bool:
    """Whether a call of a backward program recomputes one of the forward pass."""
    return call.meta.get("partitioner_tag") == "is_forward"


def adds_gradients(call: FxNode) -> bool:
    """Whether a call accumulates the gradients of a tensor with several uses."""
    return bool(call.meta.get("is_gradient_acc"))


def program_arguments(
    node: Any, opened: CompiledBackward, grad_outputs: Sequence[torch.Tensor | None]
) -> list[Any]:
    """Return the arguments of a node's backward program, without running it."""
    cls: Any = custom_function(node)
    if getattr(cls, "clear_saved_tensors_on_access", False):
        raise CannotOpenError("Reading what this node saved would free it, so it is not read.")
    try:
        packed = packed_by_function(node)
        is_packed = any(unpack_hook(each) is not None for each in packed)
        saved = () if is_packed else node.saved_tensors
    except RuntimeError as error:
        raise CannotOpenError(_why_gone(node, str(error))) from None
    except LookupError as error:
        raise CannotOpenError(str(error)) from None
    if not is_there(outputs_metadata):
        raise CannotOpenError(f"{_FRAMEWORK} does not give the shapes of what this node returns.")
    if packed and not saved:
        raise CannotOpenError(
            "What this node saved is packed by a saved-tensor hook (activation checkpointing, "
            "save_on_cpu, ...), and unpacking it may run part of the forward pass again."
        )
    saved = (*saved, *(_unchecked_tensors(node) or ()))
    given = [
        torch.zeros(like.shape, dtype=like.dtype, device=like.device) if grad is None else grad
        for grad, like in zip(grad_outputs, outputs_metadata(node), strict=True)
    ]
    prologue = _prologue(cls)
    symints = tuple(getattr(node, "symints", ()))
    if prologue is not None:  # it also converts the layout of gradients
        found: list[Any] = prologue(saved, symints, getattr(node, "opaque_objects", ()), given)
    else:
        found = [*symints, *saved, *(given[nr] for nr in opened.tangents.values())]
    wanted = len(opened.saved) + len(opened.tangents)
    if len(found) != wanted:
        raise CannotOpenError(
            f"The backward program of this node takes {wanted} values, but {len(found)} are there: "
            "it also takes random states or tokens, so it is not run again."
        )
    return found


def _why_gone(node: Any, message: str) -> str:
    if "modified by an inplace operation" in message:
        return "What this node saved was changed in place since, so backward cannot run again."
    if donates_buffers(node):
        return (
            "This node's code overwrites what it saved (donated buffers), so it ran once and the "
            "gradients inside are not known. Set torch._functorch.config.donated_buffer = False "
            "before the first backward, and retain the graph, to see them."
        )
    return (
        "What this node saved was freed by the pass, so the gradients inside are not known. Run "
        "backward with retain_graph=True to see them."
    )


@contextmanager
def _each_autocast_off() -> Iterator[None]:
    here = torch.accelerator.current_accelerator()
    with ExitStack() as stack:
        for kind in {"cpu", "cpu" if here is None else here.type}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@capability("torch._C._DisableAutocast", otherwise=_each_autocast_off)
def without_autocast(disabled: Any) -> Callable[[], AbstractContextManager[None]]:
    """Return a context without autocast, as around compiled code, whose program has the casts."""
    with disabled():
        torch.ones(1, device="cpu")
    return cast("Callable[[], AbstractContextManager[None]]", disabled)
