"""Running the real backward once, its input checked first and `.grad` put back after an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ..graph.capture import Capture
from .faults import error_note, failed_node
from .grads import Grads
from .observe import Observer, Run


def run_backward(
    captured: Capture,
    observer: Observer,
    *,
    gradient: Any = None,
    retain_graph: bool = True,
    create_graph: bool = False,
    inputs: Any = None,
) -> Run:
    """Run ``torch.autograd.backward`` from the graph's outputs, recorded.

    Args:
        captured: The graph.
        observer: Watches its nodes.
        gradient: What to start from, as for ``Tensor.backward``; a list for several outputs.
        retain_graph: Whether the nodes keep their saved tensors, so that backward can run again.
        create_graph: Whether the gradients get a graph of their own.
        inputs: The tensors to accumulate into; None for every leaf.

    Returns:
        The run. It knows what every ``.grad`` was after each step.

    Raises:
        TypeError: ``gradient`` or ``inputs`` is of the wrong kind.
        ValueError: ``gradient`` is missing for an output of several numbers, or does not fit.
        Exception: What backward itself raises, with a note where it happened. Every ``.grad`` is
            then as it was before.
    """
    seeds = read_gradient(captured, gradient)
    wanted = _read_inputs(inputs)
    grads = Grads(captured, [each for each in wanted or () if isinstance(each, torch.Tensor)])
    roots = [GradientEdge(captured.nodes[node], nr) for node, nr in captured.graph.graph["roots"]]
    run = observer.own(grads, seeds)
    try:
        with observer.owning(run):
            torch.autograd.backward(
                roots, seeds, retain_graph=retain_graph, create_graph=create_graph, inputs=wanted
            )
    except BaseException as error:
        run.state = "stopped"
        run.error = _in_words(error)
        if not isinstance(error, KeyboardInterrupt):
            run.failed = failed_node(captured.graph, captured.nodes, run)
        _add_note(error, error_note(captured.graph, run, run.failed))
        raise
    else:
        run.state = "done"
    finally:
        grads.finish(len(run.steps))
        if run.state != "done":
            grads.go(0)
    return run


def read_gradient(captured: Capture, gradient: Any) -> list[torch.Tensor]:
    """The gradient to start from, one per output.

    Args:
        captured: The graph.
        gradient: None, a tensor, or a sequence of these, one per output.

    Returns:
        A tensor per output: ones for an output of one number when None was given.

    Raises:
        TypeError: It is of another kind.
        ValueError: There are not as many as outputs, one is missing, or one does not fit.
    """
    roots = captured.graph.graph["roots"]
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


def _read_seed(captured: Capture, node: int, output_nr: int, given: Any) -> torch.Tensor:
    name, like = _output(captured, node, output_nr)
    shape = tuple(like.shape)
    if given is None:
        missing = missing_gradient(captured, node, output_nr)
        if missing is not None:
            raise ValueError(missing)
        return torch.ones(shape, dtype=like.dtype, device=like.device)
    if not isinstance(given, torch.Tensor):
        raise TypeError(
            f"gradient was given {given!r} for {name}, of type {type(given).__name__}. Give a "
            f"tensor of shape {shape}."
        )
    if tuple(given.shape) != shape:
        raise ValueError(
            f"gradient was given a tensor of shape {tuple(given.shape)} for {name}, which has "
            f"shape {shape}. It needs one number for each of the output's: give a tensor of shape "
            f"{shape}."
        )
    return given


def missing_gradient(captured: Capture, node: int, output_nr: int) -> str | None:
    """Why backward cannot start at an output without ``gradient=``; None when it can."""
    name, like = _output(captured, node, output_nr)
    shape = tuple(like.shape)
    if all(size == 1 for size in shape):
        return None
    example = f"torch.ones({', '.join(map(str, shape))})"
    return (
        f"{name} has shape {shape}, so it has no one gradient: backward needs to know how much "
        f"each of its {torch.Size(shape).numel()} numbers counts. Give that as gradient=, a tensor "
        f"of shape {shape} (the sum of all is gradient={example}), or start from one number, such "
        f"as {name}.sum()."
    )


def _output(captured: Capture, node: int, output_nr: int) -> tuple[str, Any]:
    """An output's name, and something with its shape, dtype and device."""
    data = captured.graph.nodes[node]
    name = data["outputs"][output_nr]["name"] if output_nr < len(data["outputs"]) else None
    behind: Any = captured.nodes[node]
    like = behind.variable if data["kind"] == "leaf" else behind._input_metadata[output_nr]
    return name or "the output", like


def _read_inputs(inputs: Any) -> list[Any] | None:
    if inputs is None:
        return None
    listed = [inputs] if isinstance(inputs, (torch.Tensor, GradientEdge)) else list(inputs)
    for each in listed:
        if not isinstance(each, (torch.Tensor, GradientEdge)):
            raise TypeError(
                f"inputs was given {each!r}, of type {type(each).__name__}. Give the tensors to "
                "accumulate into, for example inputs=[w, b]."
            )
    if not listed:
        raise ValueError(
            "inputs was given nothing, so no gradient would be kept. Give the tensors to "
            "accumulate into, or leave inputs out for every leaf."
        )
    return listed


def _in_words(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _add_note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"{note} Every .grad is as it was before this backward pass.")
