"""`record`: run the real backward once and record every step of it."""

from __future__ import annotations

from typing import Any

from ..graph.arguments import read_int
from ..graph.capture import Capture, capture_nodes
from ..graph.names import Names, caller_names
from ..graph.outputs import read_outputs
from ..lazily import nx
from ..result import make, returned_by
from ..torch_api.modes import grad_mode_kept
from ..tracing.annotate import watched
from ..types import Gradient, Inputs, Outputs, RetainGraph, TensorNames
from .kept_gradients import DEFAULT_BUDGET
from .observe import Observer
from .recorded_pass import (
    RecordedPass,
    RecordedStep,
    announce,
    read_count,
    read_max_bytes,
    refuse_within_backward,
)
from .run_backward import IF_POSSIBLE, run_backward


@returned_by("record(loss)")
class Recording:
    """One backward pass: its steps, in the engine's order, and a cursor over them.

    `record` makes it, and runs the pass. It owns the ``.grad`` of the graph's leaves (and of
    intermediate tensors that retain theirs): with the cursor at k, each is what the engine had
    after k steps, bit for bit. As soon as something else changes one, moving touches none.

    Attributes:
        graph: The captured graph, a ``networkx.MultiDiGraph`` as `gradwalk.capture` gives it.
        steps: The steps, in the engine's order: see `RecordedStep`.
        cursor: The number of completed steps, from 0 to ``len(steps)``. Set it, or use the methods.
        note: A sentence on whether moving the cursor changes ``.grad``, and which ``.grad`` already
            held a gradient before the pass; None if neither applies.

    Raises:
        ValueError: ``cursor`` is set to a number that is not from 0 to ``len(steps)``.
        RuntimeError: A hook moves it while a backward pass runs.

    Example::

        >>> import torch
        >>> from gradwalk import record
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> recording = record(x**2)
        >>> recording.cursor, x.grad
        (2, tensor(6.))
        >>> recording.cursor = 1
        >>> x.grad is None
        True
    """

    def __init__(self, recorded: RecordedPass) -> None:
        self._pass = recorded
        announce(recorded)

    @property
    def graph(self) -> nx.MultiDiGraph:
        """The captured graph."""
        return self._pass.graph

    @property
    def steps(self) -> list[RecordedStep]:
        """The steps, in the engine's order."""
        return self._pass.steps

    @property
    def note(self) -> str | None:
        """Whether moving the cursor changes ``.grad``, and what the pass added to; or None."""
        return self._pass.note

    @property
    def cursor(self) -> int:
        """The number of completed steps."""
        return self._pass.cursor

    @cursor.setter
    def cursor(self, cursor: int) -> None:
        instead = f"Give a number of steps, 0 to {self._pass.run.total}."
        self._go(read_int(cursor, "cursor was given ", instead))

    def step(self, n: int = 1) -> None:
        """Move forward ``n`` steps, at most to the end.

        Args:
            n (int, optional): How many, from 0; 1 by default.

        Raises:
            TypeError: ``n`` is not a whole number.
            ValueError: ``n`` is negative.
            RuntimeError: A backward pass is running, and a hook asked for it.

        Example::

            >>> import torch
            >>> from gradwalk import record
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> recording = record(x**2)
            >>> recording.reset()
            >>> recording.step()
            >>> recording
            <Recording: step 1 of 2>
        """
        self._go(min(self.cursor + read_count(n, "step"), self._pass.run.total))

    def step_back(self, n: int = 1) -> None:
        """Move ``n`` steps back, at most to the start.

        Args:
            n (int, optional): How many, from 0; 1 by default.

        Raises:
            TypeError: ``n`` is not a whole number.
            ValueError: ``n`` is negative.
            RuntimeError: A backward pass is running, and a hook asked for it.

        Example::

            >>> import torch
            >>> from gradwalk import record
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> recording = record(x**2)
            >>> recording.step_back(2)
            >>> recording
            <Recording: step 0 of 2>
        """
        self._go(max(self.cursor - read_count(n, "step_back"), 0))

    def run_to(self, node: int | str) -> None:
        """Move to the step after which a node has run.

        Args:
            node (int | str): Its id, or the name of its tensor.

        Raises:
            TypeError: ``node`` is neither.
            ValueError: No node has the name, several have it, or it did not run in this pass.

        Example::

            >>> import torch
            >>> from gradwalk import record
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> recording = record(x**2)
            >>> recording.run_to(0)
            >>> recording
            <Recording: step 1 of 2>
        """
        self._go(self._pass.find(node))

    def reset(self) -> None:
        """Move to the start: every ``.grad`` as before the pass.

        Example::

            >>> import torch
            >>> from gradwalk import record
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> recording = record(x**2)
            >>> recording.reset()
            >>> x.grad is None
            True
        """
        self._go(0)

    @grad_mode_kept
    def _go(self, cursor: int) -> None:
        refuse_within_backward("Moving the cursor of a recording")
        self._pass.seek(cursor)

    def __repr__(self) -> str:
        return f"<Recording: step {self.cursor} of {self._pass.run.total}>"


def record(
    *outputs: Outputs,
    gradient: Gradient | None = None,
    retain_graph: RetainGraph = IF_POSSIBLE,
    create_graph: bool = False,
    inputs: Inputs | None = None,
    names: TensorNames | None = None,
    max_bytes: int = DEFAULT_BUDGET,
    stacklevel: int = 1,
) -> Recording:
    """Run backward on the outputs, which fills ``.grad``, and record every step of it.

    Args:
        *outputs (Outputs): Tensors that require grad, gradient edges or autograd nodes, any number,
            also in lists, tuples and dicts.
        gradient (Gradient, optional): The gradient to start from, as for ``Tensor.backward``: a
            tensor of the output's shape, or a list of them, one per output. None for outputs of one
            number.
        retain_graph (RetainGraph, optional): Whether the nodes keep their saved tensors, so that
            backward can run again. "if_possible" keeps them, so that a what-if or a second pass
            works, unless a compiled part of the graph can run only once. None follows
            ``create_graph``, as in torch. Default: ``"if_possible"``.
        create_graph (bool, optional): Whether the gradients get a graph of their own. Default:
            ``False``.
        inputs (Inputs, optional): The tensors to accumulate into; None for every leaf.
        names (TensorNames, optional): Names of tensors: a mapping from names to tensors or modules,
            or one module. By default the caller's variables.
        max_bytes (int, optional): Bytes of gradients to keep; beyond that only their statistics are
            kept. Default: ``2**28``, 256 MiB.
        stacklevel (int, optional): The frame whose variables give names, as for ``warnings.warn``:
            1 is the caller, and a function that wraps this one passes 2. Default: ``1``.

    Returns:
        The recording, its cursor at the end: every ``.grad`` is as after ``backward()``.

    Raises:
        TypeError: An output carries no autograd graph, ``names`` is neither a mapping nor a
            module, or another argument is of the wrong kind.
        ValueError: ``gradient`` is missing or does not fit, or no output was given.
        Exception: The error of backward itself, with a note where it happened. Every ``.grad`` is
            then as before the pass.

    Example::

        >>> import torch
        >>> from gradwalk import record
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> recording = record((x + 1 - 2 * x) ** 2)
        >>> [step.op for step in recording.steps]
        ['PowBackward0', 'SubBackward0', 'MulBackward0', 'AddBackward0', 'AccumulateGrad']
        >>> [share.grad.item() for share in recording.steps[-1].contributions]
        [8.0, -4.0]
        >>> x.grad
        tensor(4.)
        >>> recording.step_back()
        >>> x.grad is None
        True
    """
    found = caller_names(names, "record", stacklevel)
    options = {
        "gradient": gradient,
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "inputs": inputs,
    }
    max_bytes = read_max_bytes(max_bytes)
    return _recorded(outputs, found, max_bytes, **options)


@grad_mode_kept
def _recorded(outputs: Any, found: Names, max_bytes: int, **options: Any) -> Recording:
    return record_captured(
        capture_nodes(read_outputs(outputs, "record"), found), max_bytes, **options
    )


def record_captured(
    captured: Capture, max_bytes: int = DEFAULT_BUDGET, **options: Any
) -> Recording:
    """Run `record` on a captured graph, with arguments of `run_backward`."""
    observer = Observer(
        captured.nodes, lambda: None, {node for node, _ in captured.roots}, max_bytes
    )
    try:
        noted = bool(watched(captured))
        run = run_backward(captured, observer, **options, operations=noted)
    finally:
        observer.close()
    return make(Recording, RecordedPass(captured, run))
