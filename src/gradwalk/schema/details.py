"""The details panel of a node."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from .graph import NoGradInput
from .values import Count, EdgePlace, JsonNumber, Kind, NodeId, NodeState, Plain, SomeOf, Values


class TensorSummary(TypedDict):
    """A tensor's statistics and at most 64 of its values."""

    shape: list[Count]
    dtype: str
    device: str
    numel: Count
    values: Values | None
    """At most 64 numbers, evenly spaced when the tensor has more; None when it has no readable
    ones."""
    truncated: bool
    indices: list[list[Count]] | None
    """The indices of ``values`` along each dimension, when truncated."""
    min: JsonNumber | None
    max: JsonNumber | None
    mean: JsonNumber | None
    norm: JsonNumber | None
    nan: Count | None
    """Number of NaN values; ``inf`` and ``zeros`` are counts, too."""
    inf: Count | None
    zeros: Count | None
    note: str | None
    """A sentence about a special tensor (meta, sparse, not kept ...)."""


class ValueModel(TensorSummary):
    """The forward value of a node, and a sentence about its origin."""

    origin: str


class OutputModel(TypedDict):
    """One output of the forward operation behind a node."""

    output_nr: Count
    name: str | None
    shape: list[Count] | None
    dtype: str | None
    device: str | None
    is_root: bool
    """Whether this tensor was passed to the widget."""


class InputModel(TypedDict):
    """One outgoing edge of a node."""

    arg_nr: Count
    argument: str | None
    node: NodeId
    output_nr: Count
    label: str
    shape: list[Count] | None


class ConsumerModel(TypedDict):
    """One incoming edge of a node."""

    node: NodeId
    arg_nr: Count | None
    argument: str | None
    output_nr: Count
    label: str


class SavedModel(TypedDict):
    """A saved tensor's summary, or another saved value."""

    name: str
    summary: TensorSummary | None
    scalar: Plain
    """A number, flag, text or list that is not a tensor."""
    freed: bool
    note: str | None


class ContributionModel(TypedDict):
    """One consumer's contribution to the incoming gradient of a node, and the sum so far."""

    step: Count
    consumer: NodeId | None
    """None for the initial gradient of backward."""
    label: str
    arg_nr: Count | None
    argument: str | None
    output_nr: Count
    grad: TensorSummary | None
    total: TensorSummary | None


class FormulaModel(TypedDict):
    """The derivative with respect to one input, as code; ``source`` says who wrote it."""

    arg_nr: Count
    argument: str | None
    code: str
    numbers: str | None
    """``code`` with the numbers inserted."""
    source: Literal["gradwalk", "torch"]
    checked: bool
    """Whether ``code`` ran with the numbers of the shown pass and gave the gradient passed on."""
    note: str | None


class FactorModel(TypedDict):
    """One edge of a path from an output to a leaf, and its derivative."""

    edge: EdgePlace
    node: NodeId
    target: NodeId
    code: str
    value: Values | None
    note: str | None


class PathModel(TypedDict):
    """One path from an output to a leaf."""

    factors: list[FactorModel]
    written: str | None
    product: Values | None


class ChainModel(TypedDict):
    """The chain rule from the outputs to one node: a product along each path, summed over paths."""

    paths: list[PathModel]
    total_paths: JsonNumber
    written: str | None
    sum: Values | None
    note: str


class GradNotes(TypedDict):
    """One sentence for each gradient that is None."""

    grad: str | None
    grad_output: str | None
    grad_input: str | None


class SourceModel(TypedDict):
    """A line of the user's program."""

    file: str
    line: Count
    text: str
    function: str


class ConstantModel(TypedDict):
    """A drawn operand of a node that does not require grad."""

    node: NodeId
    argument: str | None
    arg_nr: Count | None
    label: str
    shape: list[Count] | None


class CutModel(TypedDict):
    """Where the graph was cut before an operand, and the node of the tensor before the cut."""

    how: str
    """Such as "detach", "no_grad" or "integer cast"."""
    node: NodeId
    label: str
    line: SourceModel | None
    region: SourceModel | None
    """Where grad mode was disabled."""


class FunctionModel(TypedDict):
    """The source code of a custom ``autograd.Function``'s backward."""

    method: str
    """"Cube.backward". User text."""
    place: SourceModel | None
    """Its first line."""
    code: str
    """Its source; empty where unknown. User text."""
    note: str | None
    """Why it is unknown."""


class OperationModel(TypedDict):
    """One operation that a backward ran."""

    called: str
    """Its name in torch, "aten.mul.Tensor"."""
    behind: str | None
    """The node of a nested backward pass that called it."""
    gave: TensorSummary | None


class FailedModel(TypedDict):
    """A part of the details that could not be computed, and a sentence why."""

    part: str
    sentence: str


class RankGradModel(TypedDict):
    """The gradient of a leaf on one rank; all None where its graph lacks the leaf."""

    rank: Count
    local: TensorSummary | None
    """The rank's own gradient, before the reduction."""
    reduced: TensorSummary | None
    """Its ``.grad``; under FSDP2 the rank's shard."""
    difference: TensorSummary | None
    """``local - reduced``; under FSDP2 of the shard. None where the rank did not have the values
    of both when it saved."""
    bucket: Count | None
    """Its DistributedDataParallel bucket, from 0; None where DDP's log does not have it."""
    ready: Count | None
    """Its position, from 0, in the order in which the gradients were ready."""
    odd: bool
    """Whether it differs from most ranks. A local gradient is NaN, infinite or missing where most
    are not, or the other way round. With three or more ranks, also if its norm is over 10 times
    the median or under a tenth of it. A reduced gradient has a value that most ranks lack."""


class DetailsModel(TypedDict):
    """Everything the panel shows about the selected node.

    Each list has the first 100 entries; the counts cover all. ``input_count`` counts ``inputs``,
    ``no_grad_inputs`` and ``constants``.
    """

    id: NodeId
    kind: Kind
    op: str
    name: str | None
    about: str
    """A sentence or two about this node."""
    forward: str | None
    """The signature of the forward operation, from the installed torch."""
    shape: list[Count] | None
    dtype: str | None
    device: str | None
    requires_grad: bool | None
    """None, like ``is_leaf``, where a static graph does not record it."""
    is_leaf: bool | None
    outputs: list[OutputModel]
    output_count: Count
    saved: list[SavedModel]
    saved_count: Count
    inputs: list[InputModel]
    input_count: Count
    no_grad_inputs: list[NoGradInput]
    consumers: list[ConsumerModel]
    consumer_count: Count
    value: ValueModel | None
    """The output of the operation, or the value of the leaf or constant."""
    value_note: str | None
    """Why the value is unknown, where this needs an explanation."""
    grad: TensorSummary | None
    grad_output: list[TensorSummary | None] | None
    """One per output of the node."""
    grad_input: list[TensorSummary | None] | None
    """One per entry of ``inputs``."""
    grad_note: GradNotes
    state: NodeState
    contributions: list[ContributionModel] | None
    """Each consumer's contribution to the incoming gradient; None when no pass is shown."""
    contribution_count: Count
    formula: list[FormulaModel]
    chain: ChainModel | None
    """For a leaf, and for a scalar in a small graph."""
    source: SourceModel | None
    """The line that created it. This and the next fields need ``watch()`` or inference."""
    module: str | None
    """Such as "encoder.layers.0.linear1"; the class name for the outermost module. User text."""
    call: str | None
    """The forward function, "torch.nn.functional.linear". User text."""
    inplace: bool
    inferred: bool
    checkpoint: str | None
    """A sentence about its recomputation in backward, and the memory saved by that."""
    constants: list[ConstantModel]
    """Operands that are drawn as constants or cuts; ``no_grad_inputs`` has the others."""
    cuts: list[CutModel]
    """Empty for every node that is not a cut."""
    function: FunctionModel | None
    operations: list[OperationModel]
    """Operations of a custom Function's backward; empty where they were not recorded."""
    operation_count: Count
    explained: str | None
    """``explain_grad``'s sentence about the ``.grad`` of a leaf."""
    ranks: list[RankGradModel]
    """The gradient of a leaf on each rank, where files of several ranks were loaded."""
    failed: list[FailedModel]


class StageModel(TypedDict):
    """The details of a node that change when the cursor reaches ``from_step``."""

    from_step: Count
    fields: Annotated[dict[str, Any], SomeOf(DetailsModel)]
    """Some of the fields of its `DetailsModel`."""
