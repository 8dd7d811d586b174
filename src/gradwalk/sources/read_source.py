"""Read the user's outputs as a source to show, or as a networkx graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backward.function_calls import is_recorded
from ..backward.kept_gradients import DEFAULT_BUDGET
from ..backward.record import Recording
from ..backward.recorded_run import RecordedRun
from ..graph.adjacency import collector_paused
from ..graph.capture import Capture, capture_nodes
from ..graph.names import Names, read_names
from ..graph.outputs import read_given
from ..static.capture_static import capture_static
from ..torch_api.compiled import CannotOpenError
from ..torch_api.modes import grad_mode_kept, unseen
from ..tracing.annotate import MOST_INFERRED, Annotated, annotate
from ..tracing.double_backward import pairs
from ..types import Outputs, Program, TensorNames
from .graph_source import GraphSource
from .inner_graph import Inside, tied, with_inside
from .live_graph import LiveGraph
from .open_nodes import opened_by
from .recorded_calls import recorded_inside
from .static_graph import StaticGraph

if TYPE_CHECKING:
    import networkx as nx


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

    Args:
        given: As for `gradwalk.GraphWidget`.
        called: The user's names for tensors and modules.
        caller: The public name to use in messages.
        named: Whether the user gave the names.
        infer: Whether to infer constants and cuts; None does so in graphs of up to 2,000 nodes.
        max_bytes: The most bytes of gradients to keep for each pass.
        max_nodes: The most autograd nodes; None for any number.

    Raises:
        TypeError: An output carries no graph, is given beside a static graph, or names are given
            with a static graph.
        ValueError: No output was given, one does not require grad, or there are too many nodes.
    """
    recording = given[0] if len(given) == 1 and isinstance(given[0], Recording) else None
    with collector_paused(), unseen():
        if recording is not None:
            plain = recording._pass.captured
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
        subject = LiveGraph(captured, called, max_bytes)
    subject.recording = None if recording is None else recording._pass
    return subject


def capture(
    *outputs: Outputs | Program | Recording, names: TensorNames | None = None, opened: bool = False
) -> nx.MultiDiGraph:
    """Return the autograd graph behind some tensors, as a networkx graph.

    One graph node per autograd ``Node``; an AccumulateGrad and the leaf tensor it accumulates into
    are one node of kind ``"leaf"``. The walk is iterative and reads metadata only: no gradient,
    random state or tensor is touched, and it works after the buffers were freed.

    Args:
        *outputs (Outputs | Program | Recording): Tensors that require grad, ``GradientEdge`` or
            autograd ``Node`` objects, any number, also in lists, tuples and dicts. Or one static
            graph from ``torch.export.export`` or ``torch.fx.symbolic_trace``; or one `Recording`,
            for its graph.
        names (TensorNames, optional): Names of tensors: a mapping from names to tensors or modules
            (whose parameters get dotted names), or one module. None takes the names that the
            outputs have in a dict.
        opened (bool, optional): Whether to include the backward program of each
            ``CompiledFunctionBackward``, as it was before the backend fused it. For a recording,
            this also includes the recorded operations of custom functions and reentrant
            checkpoints. gradwalk compiles and runs nothing for it. Default: ``False``.

    Returns:
        A ``networkx.MultiDiGraph``. Nodes are numbered breadth-first from the outputs. Edges point
        the way gradients flow, from a node to its next functions, keyed by argument position.

        Node attributes: ``kind`` ("op" or "leaf"), ``op`` (the class name, "MulBackward0"),
        ``name``, ``shape`` (tuple), ``dtype`` and ``device`` (as torch prints them) of its first
        output, ``requires_grad``, ``is_leaf``, ``sequence_nr`` (torch's own), ``outputs`` (one dict
        per output: ``output_nr``, ``name``, ``shape``, ``dtype``, ``device``),
        ``no_grad_inputs`` (one dict per operand that needs no gradient: ``arg_nr``,
        ``argument``) and ``checkpoint`` (the number of the innermost checkpointed region that it
        runs in, which runs forward again in backward; None outside of any).

        Nodes that are alike share the lists under ``outputs`` and ``no_grad_inputs``: read them,
        and assign new ones rather than changing them.

        Edge attributes: ``arg_nr`` (the position of the source's argument, an index of its
        ``next_functions``), ``argument`` (its name, "self", "mat2", or None where torch names
        none), ``output_nr`` (which output of the target).

        When the forward pass, or a part of it, ran under `gradwalk.watch`, nodes also have
        ``source`` ("file:line"), ``namespace`` (the module, "encoder/layers/0/linear1"; "" for the
        outermost), ``call`` (the forward function) and ``inplace``, and edges a ``kind``. After the
        autograd nodes come others: of kind "constant", an operand that needs no grad (with
        ``value``, its numbers as text if it is small); of kind "cut", one that lost its gradient on
        the way (``how``: "detach", "no_grad", ...); and of kind "outside", the tensor of another
        graph that a cut began at. Edges of kind "constant" lead to the first two, and edges of kind
        "cut" from a cut to its source; all others are of kind "gradient". The new ones may have an
        ``arg_nr`` of None.

        With ``opened``, after the autograd nodes come nodes of kind "call": the calls of the
        backward programs, or the operations that ran, each with ``inside`` (its node's id), ``op``
        ("aten.mm.default"), ``called`` (the call with its arguments), ``fx_name``, ``namespace``
        and ``source`` as above, of the forward call that it is the backward of, ``seq_nr`` (the
        number of that call in the forward pass) and ``recomputed`` (whether it is a call of the
        forward pass, put into backward). Edges of kind "gradient" lead from the compiled node to
        the calls that take its gradients, from call to call, and from calls to the node's own next
        functions. On an edge to a call, ``argument`` names the argument of that call that takes the
        tensor, ``output_nr`` is its operand number, and ``arg_nr`` says which of several
        tensors it is. Edges of kind "constant" lead from calls to saved tensors, and to calls that
        use saved tensors only. The saved tensors are constants at the end, also with ``inside``.
        The compiled node keeps its own edges. A node that cannot be opened has ``closed``, a
        sentence that says why.

        A node of a static graph has ``fx_name``, ``called`` and ``numbers``, too: its name and its
        call in the program, and the numbers that it has in place of operands.

        Graph attributes: ``roots``, a list of (node, output_nr) in the order given, and
        ``torch_version``; where ``torch.func`` runs the program, ``transforms``, such as
        ["vmap over 2", "grad"], the outermost first; where `gradwalk.watch` saw
        ``torch.autograd.grad`` or ``backward`` with ``create_graph=True``, ``derivatives``, a list
        of (node, node): the first gave the derivative of what the second gave.

    Raises:
        TypeError: An output's type carries no autograd graph, or ``names`` is not a mapping or
            module.
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
    recording = outputs[0] if len(outputs) == 1 and isinstance(outputs[0], Recording) else None
    called = read_names(names, "capture")
    if recording is not None:
        plain: Capture = recording._pass.captured
    else:
        given = read_given(outputs, "capture")
        if not isinstance(given, list):
            return capture_static(given).graph
        plain = capture_nodes(given, called)
    captured = annotate(plain, called, infer=False)
    run = None if recording is None else recording._pass.run
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
