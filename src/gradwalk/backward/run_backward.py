"""Run the real backward once: check its input first, and restore `.grad` after an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch.autograd.graph import GradientEdge

from ..graph.capture import Capture
from ..hosts.progress import progress
from ..torch_api.capability import is_there
from ..torch_api.modes import unseen
from ..torch_api.nodes import compiled_nodes, donates_buffers, leaf_tensor, outputs_metadata
from ..torch_api.reading import fake_mode_of, has_data
from ..types import Gradient, Inputs, RetainGraph
from .failures import failed_node, stopped_at
from .function_calls import record_operations
from .leaf_grads import LeafGrads
from .observe import Observer
from .recorded_run import RecordedRun

IF_POSSIBLE: Final = "if_possible"

_UNNAMED = "the output"


def run_backward(
    captured: Capture,
    observer: Observer,
    *,
    gradient: Gradient | None = None,
    retain_graph: RetainGraph = IF_POSSIBLE,
    create_graph: bool = False,
    inputs: Inputs | None = None,
    operations: bool = False,
) -> RecordedRun:
    """Run ``torch.autograd.backward`` from the graph's outputs, recorded, as `record` does."""
    given = read_gradient(captured, gradient)
    wanted = _read_inputs(inputs)
    _check_flag("create_graph", create_graph, (True, False))
    once = False
    if isinstance(retain_graph, str) and retain_graph == IF_POSSIBLE:
        once = not create_graph and _runs_once(captured)
        retain_graph = not once
    _check_flag("retain_graph", retain_graph, (True, False, None, IF_POSSIBLE))
    with unseen():
        tensors = [each for each in wanted or () if isinstance(each, torch.Tensor)]
        grads = LeafGrads(captured, tensors)
        outputs, seeds = _starts(captured, given)
    roots: Any = outputs  # torch's stub wants them all of one kind
    run = observer.new_run(grads=grads, seeds=seeds, once=once)
    try:
        looking: AbstractContextManager[None] = nullcontext()
        if operations:
            looking = record_operations(captured, run.operations, run.max_bytes // 2)
        mode = _fake_mode(captured) or nullcontext()  # some backwards create tensors
        shown = progress("backward", lambda: run.total, len(captured.nodes))
        with shown, observer.owning(run, on_devices=_on_devices(captured)), looking, mode:
            torch.autograd.backward(
                roots,
                given,  # None for one number: torch fills it in
                retain_graph=retain_graph,
                create_graph=create_graph,
                inputs=wanted,
            )
    except BaseException as error:
        run.state = "stopped"
        run.error = _in_words(error)
        if not isinstance(error, KeyboardInterrupt):
            run.failed = failed_node(captured.graph, captured.nodes, run)
        with unseen():
            grads.finish(run.total)
            restored = grads.put_back()
        _add_note(error, stopped_at(captured.graph, run, run.failed), restored)
        raise
    run.state = "done"
    with unseen():
        grads.finish(run.total)
    if not run.total:
        grads.fixed = observer.unseen or "none of this pass's nodes was seen to run"
    return run


def _runs_once(captured: Capture) -> bool:
    """Whether compiled code in the graph can run only once."""
    nodes = captured.nodes
    return any(donates_buffers(nodes[i]) for i in compiled_nodes(nodes))


def _on_devices(captured: Capture) -> bool:
    """Return whether a node of the graph may run elsewhere than on the CPU."""
    if torch.accelerator.current_accelerator() is None:
        return any(leaf.device.type != "cpu" for _, leaf in captured.leaves())
    if not is_there(outputs_metadata):
        return True
    # Read from the nodes: building the graph only for this would be slow.
    for node in captured.nodes:
        with contextlib.suppress(RuntimeError):  # an output without a single shape
            if any(each.device.type != "cpu" for each in outputs_metadata(node)):
                return True
    return False


def read_gradient(captured: Capture, gradient: Any) -> list[torch.Tensor | None]:
    """Return the gradients to start from; None for an output of one number without one."""
    roots = captured.roots
    if gradient is None:
        given: list[Any] = [None] * len(roots)
    elif isinstance(gradient, torch.Tensor):
        given = [gradient]
    elif isinstance(gradient, Sequence):
        given = list(gradient)
    else:
        raise TypeError(
            f"gradient was given as {gradient!r}, of type {type(gradient).__name__}. Give a tensor "
            "of the output's shape, or a list of them, one per output."
        )
    if len(given) != len(roots):
        raise ValueError(
            f"gradient was given {len(given)} tensor(s), but this graph has {len(roots)} outputs. "
            "Give a list with one for each, None where an output is a single number."
        )
    return [
        _read_seed(captured, node, output_nr, each)
        for (node, output_nr), each in zip(roots, given, strict=True)
    ]


def _output(captured: Capture, node: int, output_nr: int) -> torch.Tensor | GradientEdge:
    """Return the start of backward: the tensor, if it lives and is still this output."""
    behind, alive = captured.nodes[node], captured.tensors.get((node, output_nr))
    tensor = leaf_tensor(behind) if alive is None else alive()
    # A tensor changed in place since is the output of another node.
    same = tensor is not None and (tensor.grad_fn is None or tensor.grad_fn is behind)
    return tensor if same and tensor is not None else GradientEdge(behind, output_nr)


def _ones(captured: Capture, output: torch.Tensor | GradientEdge) -> torch.Tensor:
    if isinstance(output, torch.Tensor):
        return torch.ones_like(output)
    like: Any = outputs_metadata(output.node)[output.output_nr]
    with _fake_mode(captured) or nullcontext():
        return torch.ones(like.shape, dtype=like.dtype, device=like.device)


def _fake_mode(captured: Capture) -> Any:
    return fake_mode_of(leaf for _, leaf in captured.leaves())


def _is_one_number(output: torch.Tensor | GradientEdge) -> bool:
    """Return whether an output is one real number, so that torch creates the start gradient."""
    return (
        type(output) is torch.Tensor
        and output.layout is torch.strided
        and not output.is_nested
        and output.numel() == 1
        and not output.is_complex()
    )


def _described(
    captured: Capture, node: int, output_nr: int
) -> tuple[str, tuple[int, ...] | None, str]:
    """Return an output's name, shape and dtype, from the capture: there can be many outputs."""
    outputs = captured.graph.nodes[node]["outputs"]
    if output_nr >= len(outputs):
        return _UNNAMED, None, "unknown"
    found = outputs[output_nr]
    if not is_there(outputs_metadata):
        tensor = _output(captured, node, output_nr)
        if isinstance(tensor, torch.Tensor) and not tensor.is_nested:
            return found["name"] or _UNNAMED, tuple(tensor.shape), str(tensor.dtype)
    return found["name"] or _UNNAMED, found["shape"], found["dtype"]


def starting_gradients(captured: Capture, gradient: Any) -> list[torch.Tensor]:
    """Return the gradients that a pass starts from, one per output, with torch's defaults."""
    given = read_gradient(captured, gradient)
    with unseen():
        return _starts(captured, given)[1]


def _starts(
    captured: Capture, given: list[torch.Tensor | None]
) -> tuple[list[torch.Tensor | GradientEdge], list[torch.Tensor]]:
    outputs = [_output(captured, *root) for root in captured.roots]
    pairs = zip(outputs, given, strict=True)
    return outputs, [_ones(captured, each) if seed is None else seed for each, seed in pairs]


def _read_seed(captured: Capture, node: int, output_nr: int, given: Any) -> torch.Tensor | None:
    if given is None:
        if _is_one_number(_output(captured, node, output_nr)):
            return None
        missing = missing_gradient(captured, node, output_nr)
        if missing is not None:
            raise ValueError(missing)
        return None
    name, shape, _ = _described(captured, node, output_nr)
    called = "output" if name == _UNNAMED else name  # in code
    wanted = "a tensor like the output" if shape is None else f"a tensor of shape {shape}"
    if not isinstance(given, torch.Tensor):
        raise TypeError(
            f"gradient was given {given!r} for {name}, of type {type(given).__name__}. Give "
            f"{wanted}."
        )
    if shape is not None and (given.is_nested or tuple(given.shape) != shape):
        kind = "a nested tensor" if given.is_nested else f"a tensor of shape {tuple(given.shape)}"
        raise ValueError(
            f"gradient was given {kind} for {name}, which has shape {shape}. It needs one number "
            f"for each of the output's: give a tensor of shape {shape}."
        )
    mode = _fake_mode(captured)
    is_taken = mode is not None and mode.allow_non_fake_inputs and has_data(given)
    if fake_mode_of([given]) is not mode and not is_taken:
        raise ValueError(
            f"gradient was given a tensor for {name} that is fake where the graph is not, or not "
            f"of its FakeTensorMode. Make it from the output, such as torch.ones_like({called})."
        )
    return given


def missing_gradient(captured: Capture, node: int, output_nr: int) -> str | None:
    """Say why backward needs ``gradient=`` at an output; None if it does not."""
    name, shape, dtype = _described(captured, node, output_nr)
    called = "output" if name == _UNNAMED else name  # in code
    if shape is None:
        return (
            f"{name} has no one shape (it may be a nested tensor), so backward needs to know how "
            f"much each number counts. Give that as gradient=, such as torch.ones_like({called}), "
            "or start from one number."
        )
    if any(size != 1 for size in shape):
        real = "" if not dtype.startswith("torch.complex") else ".abs()"
        return (
            f"{name} has shape {shape}, so it has no one gradient: backward needs to know how much "
            f"each of its {torch.Size(shape).numel()} numbers counts. Give that as gradient=, a "
            f"tensor of shape {shape} (the sum of all is gradient=torch.ones_like({called})), or "
            f"start from one number, such as {called}{real}.sum()."
        )
    if dtype.startswith("torch.complex"):
        return (
            f"{name} is a complex number, of dtype {dtype}, and torch starts by itself only from a "
            f"real one. Give gradient=torch.ones({shape}, dtype={dtype}) or another tensor of that "
            f"dtype, or start from a real number, such as {called}.abs()."
        )
    return None


def _read_inputs(inputs: Any) -> list[Any] | None:
    if inputs is None:
        return None
    several = isinstance(inputs, Iterable) and not isinstance(
        inputs, (torch.Tensor, GradientEdge, str)
    )
    listed = list(inputs) if several else [inputs]
    for each in listed:
        if not isinstance(each, (torch.Tensor, GradientEdge)):
            raise TypeError(
                f"inputs was given {each!r}, of type {type(each).__name__}. Give the tensors to "
                "accumulate into, for example inputs=[w, b]."
            )
        if isinstance(each, torch.Tensor) and not each.requires_grad:
            raise ValueError(
                "inputs was given a tensor that does not require grad, so no gradient can be kept "
                "for it. Give tensors of the graph, or leave inputs out for every leaf."
            )
    if not listed:
        raise ValueError(
            "inputs was given nothing, so no gradient would be kept. Give the tensors to "
            "accumulate into, or leave inputs out for every leaf."
        )
    return listed


def _check_flag(name: str, given: Any, choices: tuple[bool | str | None, ...]) -> None:
    is_plain = given is None or isinstance(given, (bool, int))  # torch takes 0 and 1, too
    if not is_plain or given not in choices:
        listed = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise TypeError(
            f"{name} was given {given!r}, of type {type(given).__name__}. Give {listed}."
        )


def _in_words(error: BaseException) -> str:
    """An error with its first paragraph, in one line: torch's go on with general advice."""
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _add_note(error: BaseException, note: str, restored: str | None) -> None:
    after = restored or "Every .grad is as it was before this backward pass"
    # The same as add_note(), which Python 3.10 lacks; IPython prints notes there, too.
    error.__notes__ = [*getattr(error, "__notes__", ()), f"{note} {after}."]
