"""The operations that a custom Function or a reentrant checkpoint ran in a recorded pass.

`gradwalk.backward.function_calls` recorded them while the pass ran; nothing runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..backward.function_calls import Operation, Operations, Producer, TensorRecord
from ..backward.kept_gradients import KeptGradient
from ..backward.recorded_run import RecordedRun
from ..graph.capture import Capture
from ..schema.values import Values
from ..torch_api.compiled import CannotOpenError
from ..torch_api.nodes import input_numbers
from ..torch_api.summary import plain_values
from ..tracing.records import MOST_COPIED
from .inner_graph import Flow, Inner, Inside, InsideNumbers

NOTE = "Noted as it ran in this pass."  # how the numbers inside are known

_MOST_CHARACTERS = 500  # of a written call


def recorded_inside(captured: Capture, node: int, run: RecordedRun | None) -> Inside:
    """Return the inside of a node; raise CannotOpenError if the pass recorded no operation."""
    found = None if run is None else run.operations.get(node)
    if found is None or not found.listed:
        raise CannotOpenError(why_closed(node, captured.graph.nodes[node]["op"], run, found))
    names = _Names(found)
    carrying: set[int] = set()
    for i, operation in enumerate(found.listed):
        for producer in (taken.producer for taken in operation.arguments):
            is_call = producer.kind == "operation" and producer.number in carrying
            if is_call or producer.kind == "gradient":
                carrying.add(i)
    calls = [_call(names, i, operation, i in carrying) for i, operation in enumerate(found.listed)]
    held = [_held(found.names.get(i), given) for i, given in enumerate(found.held)]
    made: dict[str, Callable[[Producer], Inner | int]] = {
        "gradient": lambda producer: producer.number,
        "operation": lambda producer: calls[producer.number],
        "held": lambda producer: held[producer.number],
    }
    flows = [
        Flow(
            made[taken.producer.kind](taken.producer),
            taken.producer.part,
            calls[i],
            place,
            taken.argument,
        )
        for i, operation in enumerate(found.listed)
        for place, taken in enumerate(operation.arguments)
    ]
    numbers = input_numbers(captured.nodes[node]) or {}
    return Inside(
        node,
        calls,
        held,
        flows,
        frozenset(calls[i] for i in carrying),
        {
            numbers[place]: calls[producer.number]
            for place, producer in found.returned.items()
            if producer.kind == "operation" and place in numbers
        },
        {},
        {},
        lambda _: _numbers(found, calls, held),
    )


def why_closed(node: int, op: str, run: RecordedRun | None, found: Operations | None) -> str:
    """Explain why a node has no recorded operations."""
    if found is not None:
        return found.note or f"The backward of node {node} ({op}) ran no operation of torch's."
    if run is not None and run.grads is not None and node not in run.steps:
        return f"Backward did not run node {node} ({op}), so there is nothing inside to show."
    return (
        f"A recorded pass shows the operations inside node {node} ({op}). Compute the output under "
        "gradwalk.watch(), and call backward() of the widget, or gradwalk.record()."
    )


class _Names:
    """Names for the tensors and operations, as a program would have them."""

    def __init__(self, found: Operations) -> None:
        self._found = found
        used: dict[str, int] = {}
        self.operations = []
        for operation in found.listed:
            name = operation.name.split(".")[1 if "." in operation.name else 0]
            count = used[name] = used.get(name, -1) + 1
            self.operations.append(f"{name}_{count}" if count else name)
        gradients = {
            taken.producer.number
            for operation in found.listed
            for taken in operation.arguments
            if taken.producer.kind == "gradient"
        }
        self._is_one = gradients <= {0}

    def of(self, producer: Producer) -> str:
        """Return the name of a tensor."""
        if producer.kind == "gradient":
            return "grad_output" if self._is_one else f"grad_output[{producer.number}]"
        if producer.kind == "held":
            return self._found.names.get(producer.number) or f"tensor_{producer.number}"
        name = self.operations[producer.number]
        several = 1 < len(self._found.listed[producer.number].outputs) > producer.part
        return f"{name}[{producer.part}]" if several else name


def _call(names: _Names, i: int, operation: Operation, carries: bool) -> Inner:
    arguments = "".join(
        each if isinstance(each, str) else names.of(each) for each in operation.code
    )
    written = f"{operation.name}({arguments})"
    if len(written) > _MOST_CHARACTERS:
        written = f"{written[:_MOST_CHARACTERS]}…"
    by = "" if operation.inner_node is None else f", for {operation.inner_node.rpartition('::')[2]}"
    sentences = [f"The backward of this node ran it in this pass{by}."]
    if operation.recomputed:
        sentences.append(
            "It is an operation of the forward pass, which a checkpoint runs again here."
        )
    elif not carries:
        sentences.append("No gradient flows through it.")
    outputs = [_output(nr, given) for nr, given in enumerate(operation.outputs)]
    first = next((each for each in outputs if each["shape"] is not None), _output(0, None))
    return Inner(
        {
            "op": operation.name,
            "name": None,
            **{key: first[key] for key in ("shape", "dtype", "device")},
            "is_leaf": False,
            "outputs": outputs,
            "no_grad_inputs": [],
            "fx_name": names.operations[i],
            "called": written,
            "numbers": [],
            "source": None,
            "namespace": None,
            "recomputed": operation.recomputed,
        },
        " ".join(sentences),
        operation,
        own=len(operation.outputs),
        value=_few(operation.outputs) if not carries else None,
    )


def _held(name: str | None, given: TensorRecord) -> Inner:
    output = _output(0, given)
    saved = name is not None and name.startswith("saved_tensors[")
    about = "A tensor that existed before backward ran"
    if saved:
        about = f"{name} of the node: a tensor that its forward saved for backward"
    elif name is not None:
        about = f"{name}, which backward used"
    return Inner(
        {
            "op": name if saved and name is not None else "tensor",
            "name": None if saved else name,
            **{key: output[key] for key in ("shape", "dtype", "device")},
            "is_leaf": False,
            "requires_grad": None,
            "outputs": [output],
            "no_grad_inputs": [],
            "namespace": None,
            "source": None,
        },
        f"{about}.",
        given,
        value=_few([given]),
    )


def _few(gave: Sequence[TensorRecord | None]) -> Values | None:
    tensor = gave[0].kept.tensor if len(gave) == 1 and gave[0] is not None else None
    if tensor is None or tensor.is_nested or tensor.numel() > MOST_COPIED:
        return None
    return None if tensor.dtype == torch.bool else plain_values(tensor)


def _output(nr: int, given: TensorRecord | None) -> dict[str, Any]:
    return {
        "output_nr": nr,
        "name": None,
        "shape": None if given is None else given.shape,
        "dtype": None if given is None else given.dtype,
        "device": None if given is None else given.device,
    }


def _numbers(found: Operations, calls: list[Inner], held: list[Inner]) -> InsideNumbers:
    """Return the recorded values."""
    given: dict[Inner, list[KeptGradient | None]] = {
        call: [None if each is None else each.kept for each in (*done.outputs, *done.writes)]
        for call, done in zip(calls, found.listed, strict=True)
    }
    given |= {inner: [each.kept] for inner, each in zip(held, found.held, strict=True)}
    return InsideNumbers(given, NOTE if found.note is None else f"{NOTE} {found.note}")
