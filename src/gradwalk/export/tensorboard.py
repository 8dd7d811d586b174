"""The autograd graph in TensorBoard's graph tab."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from ..graph.labels import without_backward
from ..lazily import nx
from ..schema.json_values import well_formed
from ..sources.read_source import capture
from ..torch_api.tensorboard import file_writer
from ..types import Outputs

if TYPE_CHECKING:
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef
    from torch.utils.tensorboard import SummaryWriter

_PLUGIN, _PLUGIN_VERSION = "graph_run_metadata_graph", b"1"  # TensorBoard's kind of tagged graphs
_GRAPH_DEF_VERSION = 22  # as torch's own SummaryWriter.add_graph writes


def to_tensorboard(
    writer: SummaryWriter, *outputs: Outputs | nx.MultiDiGraph, tag: str = "autograd"
) -> None:
    """Write the autograd graph behind some tensors for TensorBoard's graph tab.

    Each autograd node becomes a node with its shapes and device, in the scope of its module if
    known. Edges point from inputs to outputs, as TensorBoard expects.

    Args:
        writer (SummaryWriter): A ``torch.utils.tensorboard.SummaryWriter``.
        *outputs (Outputs | nx.MultiDiGraph): A graph from `gradwalk.capture`, with names and groups
            if it has them; or tensors that require grad, also in lists and dicts, as for
            `gradwalk.capture`.
        tag (str, optional): The name of the graph in TensorBoard; a run may hold several. Default:
            ``"autograd"``.

    Raises:
        ImportError: The tensorboard package is not installed.
        TypeError: ``writer`` is not a SummaryWriter, ``tag`` is not a string, or ``outputs`` carry
            no graph.
        ValueError: ``tag`` is empty, no output was given, or one does not require grad.

    Example::

        >>> import tempfile, torch
        >>> from torch.utils.tensorboard import SummaryWriter
        >>> from gradwalk import to_tensorboard
        >>> w = torch.ones(2, requires_grad=True)
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     to_tensorboard(writer, (w * 2).sum())
    """
    _check_installed()
    from tensorboard.compat.proto import (  # noqa: PLC0415
        config_pb2,
        summary_pb2,
        tensor_pb2,
        types_pb2,
    )
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415

    if not isinstance(writer, SummaryWriter):
        raise TypeError(
            f"to_tensorboard() was given a writer of type {type(writer).__name__}, but it writes "
            "with a torch.utils.tensorboard.SummaryWriter. Pass one as the first argument."
        )
    if not isinstance(tag, str):
        raise TypeError(
            f"to_tensorboard() was given a tag of type {type(tag).__name__}, but TensorBoard lists "
            'graphs by text. Pass a string such as "autograd".'
        )
    if not tag:
        raise ValueError(
            "to_tensorboard() was given an empty tag, under which TensorBoard would not find the "
            'graph. Pass a name such as "autograd".'
        )
    graph = outputs[0] if _is_graph(outputs) else capture(*outputs)
    run = config_pb2.RunMetadata()
    run.function_graphs.add().pre_optimization_graph.CopyFrom(graph_def(graph))
    metadata = summary_pb2.SummaryMetadata(data_class=summary_pb2.DATA_CLASS_BLOB_SEQUENCE)
    metadata.plugin_data.plugin_name = _PLUGIN
    metadata.plugin_data.content = _PLUGIN_VERSION
    blob = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING)
    blob.tensor_shape.dim.add(size=1)
    blob.string_val.append(run.SerializeToString())
    value = summary_pb2.Summary.Value(tag=well_formed(tag), metadata=metadata, tensor=blob)
    file_writer(writer).add_summary(summary_pb2.Summary(value=[value]), 0)


def _is_graph(outputs: tuple[Any, ...]) -> TypeGuard[tuple[nx.MultiDiGraph]]:
    return len(outputs) == 1 and isinstance(outputs[0], nx.MultiDiGraph)


def graph_def(graph: nx.MultiDiGraph) -> GraphDef:
    """Convert a captured graph to TensorFlow's graph format; ``namespace`` becomes the scope."""
    _check_installed()
    from tensorboard.compat.proto import graph_pb2  # noqa: PLC0415

    names = node_names(graph)
    found = graph_pb2.GraphDef(node=[_node_def(graph, node, names) for node in graph])
    found.versions.producer = _GRAPH_DEF_VERSION
    return found


def node_names(graph: nx.MultiDiGraph) -> dict[int, str]:
    """Name each node for TensorBoard: unique, and scoped by its ``namespace``."""
    scopes = {node: _scope(data.get("namespace")) for node, data in graph.nodes(data=True)}
    # TensorBoard confuses a node with a scope of the same name.
    taken = {scope[:end] for scope in set(scopes.values()) for end in _ends_of_scopes(scope)}
    counts: dict[str, int] = {}
    names: dict[int, str] = {}
    for node, data in graph.nodes(data=True):
        plain = scopes[node] + _word(data["name"] or without_backward(data["op"]))
        name = plain
        while name in taken:
            counts[plain] = counts.get(plain, 0) + 1
            name = f"{plain}_{counts[plain]}"
        taken.add(name)
        names[node] = name
    return names


def _check_installed() -> None:
    try:
        import tensorboard  # noqa: F401, PLC0415
    except ImportError as error:
        raise ImportError(
            "to_tensorboard() needs the tensorboard package, which is not installed. "
            "Install it with: pip install tensorboard"
        ) from error


def _scope(namespace: str | None) -> str:
    return "".join(f"{_word(part)}/" for part in (namespace or "").split("/") if part)


def _ends_of_scopes(scope: str) -> Iterable[int]:
    return (place for place, letter in enumerate(scope) if letter == "/")


def _word(text: str) -> str:
    """Replace the characters that TensorFlow does not allow in a name."""
    word = re.sub(r"[^A-Za-z0-9_.\-]", "_", text)
    return word if word[:1].isalnum() else f"x{word}"


def _node_def(graph: nx.MultiDiGraph, node: int, names: dict[int, str]) -> NodeDef:
    from tensorboard.compat.proto.node_def_pb2 import NodeDef  # noqa: PLC0415

    data = graph.nodes[node]
    edges = sorted(
        (edge["arg_nr"], target, edge["output_nr"], edge["argument"])
        for _, target, edge in graph.out_edges(node, data=True)
    )
    attributes = {"_output_shapes": _shapes([output["shape"] for output in data["outputs"]])}
    if data["dtype"] is not None:
        attributes["dtype"] = _text(data["dtype"])
    if data["name"]:
        attributes["tensor"] = _text(data["name"])
    if edges:
        attributes["arguments"] = _text(_joined((nr, argument) for nr, _, _, argument in edges))
    if data["no_grad_inputs"]:
        without_grad = ((each["arg_nr"], each["argument"]) for each in data["no_grad_inputs"])
        attributes["no_grad_inputs"] = _text(_joined(without_grad))
    return NodeDef(
        name=names[node],
        op=well_formed(data["op"]),
        input=[names[to] + (f":{output_nr}" if output_nr else "") for _, to, output_nr, _ in edges],
        device=_device(data["device"]),
        attr=attributes,
    )


def _joined(arguments: Iterable[tuple[int, str | None]]) -> str:
    return ", ".join(argument or f"input {nr}" for nr, argument in arguments)


def _text(value: str) -> AttrValue:
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue  # noqa: PLC0415

    return AttrValue(s=well_formed(value).encode())


def _shapes(shapes: list[tuple[Any, ...] | None]) -> AttrValue:
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue  # noqa: PLC0415

    found = AttrValue()
    found.list.SetInParent()
    for shape in shapes:
        written = found.list.shape.add(unknown_rank=shape is None)
        for size in shape or ():
            written.dim.add(size=size if isinstance(size, int) else -1)  # -1: unknown
    return found


def _device(device: str | None) -> str:
    """Torch's "cuda:1" as TensorFlow writes it, "/device:CUDA:1"."""
    if device is None:
        return ""
    kind, _, index = device.partition(":")
    return f"/device:{kind.upper()}:{index or 0}"
