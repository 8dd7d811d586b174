"""Read the user's outputs as a source to show, or as a networkx graph."""

from __future__ import annotations

from typing import Any

from ..backward.function_calls import is_recorded
from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.record import Recording
from ..backward.recorded_pass import RecordedPass, known_pass
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import collector_paused
from ..graph.capture import capture_nodes
from ..graph.names import Names, read_names
from ..graph.outputs import read_given
from ..lazily import nx
from ..static.capture_static import capture_static
from ..torch_api.compiled import CannotOpenError
from ..torch_api.modes import grad_mode_kept, unseen
from ..tracing.annotate import Annotated, annotate
from ..tracing.constant_operands import MOST_INFERRED
from ..tracing.double_backward import pairs
from ..types import Outputs, Program, TensorNames
from .graph_source import GraphSource
from .inner_graph import Inside, tied, with_inside
from .live_graph import LiveGraph
from .open_nodes import opened_by
from .recorded_calls import recorded_inside
from .static_graph import StaticGraph


@grad_mode_kept
def read_source(
    given: tuple[Any, ...],
    called: Names,
    caller: str,
    *,
    named: bool = False,
    infer: bool | None = None,
    max_bytes: int = DEFAULT_BUDGET,
    max_nodes: int | None = None,
) -> GraphSource:
    """Capture the user's outputs, a static graph or one `Recording`, without hooks.

    ``named``: whether the user gave the names ``called``. ``infer``: whether to infer constants and
    cuts; None does so in graphs of up to 2,000 nodes. ``max_bytes`` of gradients are kept of each
    pass. Raises what `gradwalk.GraphWidget` raises.
    """
    recording = _only_recording(given)
    with collector_paused(), unseen():
        if recording is not None:
            plain = recording.captured
        else:
            read = read_given(given, caller)
            if not isinstance(read, list):
                if named:
                    raise TypeError(
                        f"{caller}() was given names along with a static graph, which has names of "
                        "its own. Leave them out."
                    )
                return StaticGraph(capture_static(read))
            plain = capture_nodes(read, called, max_nodes)
        if infer is None:
            infer = len(plain.nodes) <= MOST_INFERRED
        captured = annotate(plain, called, infer=infer)
        source = LiveGraph(captured, called, max_bytes)
    source.recording = recording or _seen_before(captured)
    return source


def _seen_before(captured: Annotated) -> RecordedPass | None:
    """Return the latest pass of the program itself through a graph, if one was recorded."""
    known = known_pass(captured)
    if known is None or known.run.grads is not None:
        return None
    return RecordedPass(captured, known.run)  # with the names of this graph


def _only_recording(given: tuple[Any, ...]) -> RecordedPass | None:
    """Return the pass of the `Recording` that was given alone."""
    return given[0]._pass if len(given) == 1 and isinstance(given[0], Recording) else None


def capture(
    *outputs: Outputs | Program | Recording, names: TensorNames | None = None, opened: bool = False
) -> nx.MultiDiGraph:
    """Return the autograd graph behind some tensors, as a networkx graph.

    One graph node per autograd ``Node``; an AccumulateGrad and its leaf tensor are one node of kind
    "leaf". It reads metadata only: no gradient, random state or tensor is touched, and it works
    after the buffers were freed.

    Args:
        *outputs (Outputs | Program | Recording): Tensors that require grad, gradient edges or
            autograd nodes, any number, also in lists, tuples and dicts. Or one static graph from
            torch.export or torch.fx, or one `Recording`.
        names (TensorNames, optional): Names of tensors: a mapping from names to tensors or modules
            (whose parameters get dotted names), or one module. None takes the names that the
            outputs have in a dict.
        opened (bool, optional): Whether to include the backward program of each
            ``CompiledFunctionBackward``, as it was before fusion, and the operations that a
            recording has of custom functions and reentrant checkpoints. Nothing is compiled or run.
            Default: ``False``.

    Returns:
        A ``networkx.MultiDiGraph``. Nodes are numbered breadth-first from the outputs. Edges point
        the way gradients flow, from a node to its next functions, keyed by argument position.

        Node attributes: ``kind`` ("op" or "leaf"), ``op`` (the class name, "MulBackward0"),
        ``name``, ``shape`` (tuple), ``dtype`` and ``device`` (as torch prints them) of its first
        output, ``requires_grad``, ``is_leaf``, ``sequence_nr`` (torch's own), ``outputs`` (a dict
        each: ``output_nr``, ``name``, ``shape``, ``dtype``, ``device``), ``no_grad_inputs`` (a
        dict for each operand that needs no gradient: ``arg_nr``, ``argument``) and ``checkpoint``
        (the number of the innermost checkpointed region, which backward recomputes; None outside).
        Nodes that are alike share these lists: assign new ones rather than changing them.

        Edge attributes: ``arg_nr`` (an index of the source's ``next_functions``), ``argument``
        (its name, "self", "mat2"; None where torch names none), ``output_nr`` of the target.

        What ran under `gradwalk.watch` also has ``source`` ("file:line"), ``namespace`` (the
        module, "encoder/layers/0/linear1"; "" for the outermost), ``call`` (the forward function)
        and ``inplace``, and edges a ``kind``. After the autograd nodes come others: of kind
        "constant", an operand that needs no grad (with ``value``, its numbers as text if it is
        small, and ``role``, the argument that it is taken as); "cut", one that lost its gradient
        on the way (``how``: "detach", "no_grad", ...); and "outside", the tensor of another graph
        that a cut began at (``made_by``: what made it, "max(x)" or "×"; None if unknown). Edges of
        kind "constant" lead to the first two, and edges of kind "cut" from a cut to its source; all
        others are of kind "gradient". The new ones may have an ``arg_nr`` of None.

        With ``opened``, nodes of kind "call" follow: the calls of the backward programs, or the
        operations that ran, each with ``inside`` (its node's id), ``op`` ("aten.mm.default"),
        ``called`` (with its arguments), ``fx_name``, ``namespace``, ``source`` and ``seq_nr`` (the
        number) of the forward call that it is the backward of, and ``recomputed`` (whether it is
        a call of the forward pass). "gradient" edges lead from the node to the calls that take its
        gradients, from call to call, and from calls to the node's own next functions. On an edge to
        a call, ``argument`` and ``output_nr`` are its operand, and ``arg_nr`` says which of several
        tensors that is. "constant" edges lead from calls to saved tensors, which come last with
        ``inside``, and to calls that use these only. The node keeps its own edges. One that cannot
        be opened has ``closed``, a sentence that says why.

        A node of a static graph has ``fx_name``, ``called`` and ``numbers``, too: its name and its
        call in the program, and the numbers that it has in place of operands.

        Graph attributes: ``roots``, a list of (node, output_nr) in the order given, and
        ``torch_version``; within ``torch.func``, ``transforms``, the outermost first, such as
        ["vmap over 2", "grad"]; where `gradwalk.watch` saw ``create_graph=True``, ``derivatives``,
        a list of (node, node): the first gave the derivative of what the second gave.

    Raises:
        TypeError: An output carries no autograd graph, or ``names`` is not a mapping or module.
        ValueError: No output was given, or one does not require grad.

    Example::

        >>> import torch
        >>> from gradwalk import capture
        >>> w = torch.tensor([4.0], requires_grad=True)
        >>> graph = capture(w * 2, names={"w": w})
        >>> [(data["op"], data["name"]) for _, data in graph.nodes(data=True)]
        [('MulBackward0', None), ('AccumulateGrad', 'w')]
        >>> list(graph.edges(data="argument"))
        [(0, 1, 'self')]
    """
    return _captured(outputs, read_names(names, "capture"), opened)


def _captured(outputs: tuple[Any, ...], called: Names, opened: bool) -> nx.MultiDiGraph:
    run = None
    if (recording := _only_recording(outputs)) is not None:
        plain, run = recording.captured, recording.run
    else:
        given = read_given(outputs, "capture")
        if not isinstance(given, list):
            return capture_static(given).graph
        plain = capture_nodes(given, called)
    captured = annotate(plain, called, infer=False)
    drawn = _opened(captured, run) if opened else captured.drawn
    if captured.derivatives:
        drawn.graph["derivatives"] = list(dict.fromkeys(pairs(captured.derivatives)))
    if captured.transforms:
        drawn.graph["transforms"] = list(captured.transforms)
    return drawn


def _opened(captured: Annotated, run: RecordedRun | None) -> nx.MultiDiGraph:
    """The graph with its compiled nodes, and the nodes that a pass recorded inside, opened."""
    found: list[Inside] = []
    closed: dict[int, str] = {}
    with collector_paused():
        openers = opened_by(captured.nodes)
        for i, node in enumerate(captured.nodes):
            opener = openers.get(i)
            if opener is None and (run is None or not is_recorded(node)):
                continue
            try:
                found.append(
                    recorded_inside(captured, i, run)
                    if opener is None
                    else opener.read(captured, i, 0)
                )
            except CannotOpenError as why:
                closed[i] = str(why)
        graph = tied(with_inside(captured, found).drawn)
    for i, sentence in closed.items():
        graph.nodes[i]["closed"] = sentence
    return graph
