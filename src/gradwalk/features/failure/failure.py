"""`last_failure`: the call that made a watched block raise."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch

from ...english import join_words
from ...graph.capture import capture_nodes
from ...graph.names import Names, read_names
from ...graph.outputs import read_outputs
from ...lazily import nx
from ...result import make, returned_by
from ...schema.backward import RunModel, TransportModel
from ...schema.details import DetailsModel, SourceModel
from ...schema.graph import EdgeModel, GraphModel, NodeModel, RootModel
from ...sources.live_graph import LiveGraph
from ...sources.read_source import capture
from ...torch_api.modes import unseen
from ...tracing import failed_call
from ...tracing.annotate import annotate
from ...tracing.failed_call import FailedCall, FailedInput, Stage
from ...widget.graph_widget import GraphWidget


@returned_by("last_failure()")
class Failure:
    """A call that raised in a block of `gradwalk.watch`.

    Its text is the whole story; a notebook also shows the graph of the inputs. It keeps the inputs
    of the call alive, and nothing else.

    Attributes:
        call: The function that raised, as "linear"; None if the user's own code raised.
        inputs: The tensors that the call was given, each a `FailedInput`.
        line: The user's line, as "train.py:12"; None if it is not known.
        code: The text of that line, empty if it is not known.
        module: The innermost running module, as "Net.fc2"; None outside of modules.
        error: The last line of the traceback, as "RuntimeError: ...".
        graph: The graph of the inputs up to the call, as from `gradwalk.capture`; None if no input
            has a graph.
        widget: The picture of that graph, with the call as its last node, marked; None if no
            input requires grad. For a failing backward pass, the picture of its outputs.

    Example::

        >>> import torch, gradwalk
        >>> a = torch.ones(3, requires_grad=True)
        >>> try:
        ...     with gradwalk.watch():
        ...         b = a * 2
        ...         c = b + torch.ones(4)
        ... except RuntimeError:
        ...     failure = gradwalk.last_failure()
        >>> [node["op"] for node in failure.widget.model["nodes"]]
        ['add', 'MulBackward0', 'AccumulateGrad', 'constant']
    """

    def __init__(self, failed: FailedCall) -> None:
        self._failed = failed
        self.call = failed.call
        self.inputs: list[FailedInput] = list(failed.inputs)
        self.line = None if failed.line is None else str(failed.line)
        self.code = "" if failed.line is None else failed.line.text
        self.module = failed.module
        self.error = failed.error

    def __str__(self) -> str:
        place = f" at {self.line}" if self.line else ""
        code = f" (`{self.code}`)" if self.code else ""
        given = [f"{each.name or 'a tensor'} {each.shape}" for each in self.inputs]
        call = f"{self.call}() got {join_words(given) or 'no tensor'}: " if self.call else ""
        return f"{self.module or self._failed.stage.value} failed{place}{code}: {call}{self.error}"

    __repr__ = __str__

    @property
    def graph(self) -> nx.MultiDiGraph | None:
        """The graph of the inputs up to the call."""
        outputs = self._outputs()
        return capture(*outputs, names=self._names()) if outputs else None

    @functools.cached_property
    def widget(self) -> GraphWidget | None:
        """The picture of the graph up to the failing call; None if no input requires grad."""
        if not any(each.requires_grad for each in self.inputs):
            return None
        if self._failed.stage is not Stage.FORWARD:
            outputs = self._outputs()
            return GraphWidget(*outputs, names=self._names()) if outputs else None
        names = read_names(self._names(), "last_failure")
        return widget_of(self._failed, names, str(self))

    def _outputs(self) -> list[Any]:
        given = {id(each._tensor): each._tensor for each in self.inputs}
        return [each for each in given.values() if each.grad_fn is not None]

    def _names(self) -> dict[str, Any]:
        names: dict[str, Any] = {each.name: each._tensor for each in self.inputs if each.name}
        model = self._failed.model and self._failed.model()
        return {**names, "": model} if model is not None else names

    def _ipython_display_(self) -> None:
        """Show the sentence, and below it the graph."""
        from IPython.display import display  # noqa: PLC0415  only notebooks have it

        print(self)  # noqa: T201
        if self.widget is not None:
            display(self.widget)  # type: ignore[no-untyped-call]


def last_failure() -> Failure | None:
    """Return the call that made this thread's latest `gradwalk.watch` block raise.

    An exception that the program catches within the block does not count. The inputs of the failing
    call stay alive until the next block begins. After ``%load_ext gradwalk`` a failing cell counts
    like a block, if it failed in torch or in a module, until another one fails.

    Returns:
        The failure, an interruption by Ctrl-C included. None if the block ended normally, or with
        a generator that was closed.

    Example::

        >>> import torch, gradwalk
        >>> x, w = torch.ones(8, 10), torch.ones(12, 5, requires_grad=True)
        >>> try:
        ...     with gradwalk.watch():
        ...         y = x @ w
        ... except RuntimeError:
        ...     failure = gradwalk.last_failure()
        >>> failure.call, [(each.name, each.shape) for each in failure.inputs]
        ('matmul', [('x', (8, 10)), ('w', (12, 5))])
    """
    failed = failed_call.last()
    return None if failed is None else make(Failure, failed)


_BLOCKED = "The forward pass did not reach a loss, so backward cannot run."


class FailedGraph(LiveGraph):
    """The graph of the inputs of a call, with a node for the call."""

    runs_backward = False

    def __init__(self, captured: Any, names: Names, failed: FailedCall, text: str) -> None:
        super().__init__(captured, names)
        self._failed, self._text = failed, text

    @functools.cached_property
    def model(self) -> GraphModel:
        """The drawn graph. The call has no value and no shape, and its inputs have both."""
        model, failed = super().model, self._failed
        inputs = [each.name or f"input {i}" for i, each in enumerate(failed.inputs)]
        first, *others = model["nodes"]
        call: NodeModel = {
            **first,
            "op": failed.call or "call",
            "label": failed.call or "call",
            "shape": None,
            "value": None,
            "no_grad_inputs": [
                {"arg_nr": i, "argument": f"{inputs[i]} {each.shape}"}
                for i, each in enumerate(failed.inputs)
                if not each.requires_grad
            ],
        }
        edges: list[EdgeModel] = []
        for edge in model["edges"]:
            is_input = edge["source"] == 0 and edge["arg_nr"] is not None
            argument = inputs[edge["arg_nr"] or 0] if is_input else edge["argument"]
            edges.append({**edge, "argument": argument})
        roots: list[RootModel] = [{"node": 0, "output_nr": 0, "name": "failed"}]
        return {**model, "nodes": [call, *others], "edges": edges, "roots": roots}

    @property
    def run(self) -> RunModel:
        """No gradient; it marks the call."""
        return {
            "run": 0,
            "ended": "stopped",
            "seeds": [],
            "edges": [],
            "values": [],
            "norms": [],
            "arrived": [],
            "grads": [],
            "marks": [{"node": 0, "kind": "error", "note": self._text}],
        }

    def transport(self) -> TransportModel:
        """Say why backward cannot run."""
        return {"owned": False, "note": None, "blocked": _BLOCKED}

    def reopened(self) -> TransportModel:
        """Say the same in a file."""
        return self.transport()

    def backward(self, **_: Any) -> NoReturn:
        """Refuse, always with a RuntimeError."""
        raise RuntimeError(_BLOCKED)

    def findings(self, *_: Any, **__: Any) -> list[Any]:
        """Return none: the forward pass did not end."""
        return []

    def details(self, node: int, cursor: int | None = None) -> DetailsModel:
        """Return the details of a node; of the call, the failure."""
        found = super().details(node, cursor)
        if node:
            return found
        line = self._failed.line
        source = line and {name: getattr(line, name) for name in SourceModel.__annotations__}
        return {**found, "about": self._text, "source": source}  # type: ignore[typeddict-item]


def widget_of(failed: FailedCall, names: Names, text: str) -> GraphWidget:
    """Return the picture of a failing call."""
    with unseen(), torch.enable_grad():
        called = type(failed.call or "call", (_FailedFunction,), {})
        output = called.apply(*(each._tensor for each in failed.inputs))  # type: ignore[attr-defined]
        captured = capture_nodes(read_outputs((output,), "last_failure"), names)
        source = FailedGraph(annotate(captured, names, infer=True), names, failed, text)
    return GraphWidget._of(source, direction=source.direction, constants=True)


class _FailedFunction(torch.autograd.Function):
    """A node in place of the one that the call would have made."""

    @staticmethod
    def forward(_: Any, *__: torch.Tensor) -> torch.Tensor:
        return torch.empty(0)

    @staticmethod
    def backward(_: Any, *__: torch.Tensor) -> NoReturn:
        raise RuntimeError("The forward pass failed here.")
