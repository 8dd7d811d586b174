"""What the panel shows of a node."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from .graph import NoGradInput
from .values import Count, EdgePlace, JsonNumber, Kind, NodeId, NodeState, Plain, SomeOf, Values


class TensorSummary(TypedDict):
    """A tensor in at most 64 numbers and its statistics."""

    shape: list[Count]
    dtype: str
    device: str
    numel: Count
    values: Values | None
    """At most 64 numbers, an evenly spread slice when the tensor has more; None when it holds
    none."""
    truncated: bool
    indices: list[list[Count]] | None
    """Which positions ``values`` shows along each dimension, when truncated."""
    min: JsonNumber | None
    max: JsonNumber | None
    mean: JsonNumber | None
    norm: JsonNumber | None
    nan: Count | None
    """Counts."""
    inf: Count | None
    zeros: Count | None
    note: str | None
    """A sentence when something about this tensor needs saying (meta, sparse, not kept ...)."""


class ValueModel(TensorSummary):
    """What the forward pass gave at a node, and a sentence where that is known from."""

    origin: str


class OutputModel(TypedDict):
    """One output of the forward operation behind a node."""

    output_nr: Count
    name: str | None
    shape: list[Count] | None
    dtype: str | None
    device: str | None
    is_root: bool
    """Whether this tensor is one of those handed to the widget."""


class InputModel(TypedDict):
    """One edge out of a node, seen from that node."""

    input_nr: Count
    argument: str | None
    node: NodeId
    output_nr: Count
    label: str
    shape: list[Count] | None


class ConsumerModel(TypedDict):
    """One edge into a node, seen from that node."""

    node: NodeId
    input_nr: Count | None
    argument: str | None
    output_nr: Count
    label: str


class SavedModel(TypedDict):
    """Something a node keeps for backward: a tensor's summary, or a plain value."""

    name: str
    summary: TensorSummary | None
    scalar: Plain
    """A number, flag, text or list that is not a tensor."""
    freed: bool
    note: str | None


class ContributionModel(TypedDict):
    """One consumer's share of the gradient that arrives at a node, and the sum so far."""

    step: Count
    consumer: NodeId | None
    """None for the gradient that backward started from."""
    label: str
    input_nr: Count | None
    argument: str | None
    output_nr: Count
    grad: TensorSummary | None
    total: TensorSummary | None


class FormulaModel(TypedDict):
    """The derivative with respect to one input, as code; ``source`` says whose words they are."""

    input_nr: Count
    argument: str | None
    code: str
    numbers: str | None
    """The same with the numbers put in."""
    source: Literal["gradwalk", "torch"]
    note: str | None


class FactorModel(TypedDict):
    """One edge of a path from an output to a leaf, and the derivative along it."""

    edge: EdgePlace
    node: NodeId
    target: NodeId
    code: str
    value: Values | None
    note: str | None


class PathModel(TypedDict):
    """One way from an output to a leaf."""

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
    """Why a gradient is not there, one sentence for each that is None."""

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
    """An operand that needs no grad and is drawn, seen from the node that takes it."""

    node: NodeId
    argument: str | None
    input_nr: Count | None
    label: str
    shape: list[Count] | None


class CutModel(TypedDict):
    """Where gradient was lost on the way to an operand, and the node of the tensor before it."""

    how: str
    """Such as "detach", "no_grad" or "integer cast"."""
    node: NodeId
    label: str
    line: SourceModel | None
    region: SourceModel | None
    """Where grad mode had been switched off."""


class FunctionModel(TypedDict):
    """The backward of a custom ``autograd.Function``, as it is written."""

    method: str
    """"Cube.backward". User text."""
    place: SourceModel | None
    """Where it begins."""
    code: str
    """Its source, empty where that is not known. User text."""
    note: str | None
    """Why it is not."""


class OperationModel(TypedDict):
    """One operation that a backward ran."""

    called: str
    """What torch calls it, "aten.mul.Tensor"."""
    behind: str | None
    """The node of a backward pass within this one that asked for it."""
    gave: TensorSummary | None


class FailedModel(TypedDict):
    """A part of the details that could not be worked out, and a sentence why."""

    part: str
    sentence: str


class RankGradModel(TypedDict):
    """The gradient of a leaf on one rank; both None where its graph lacks the leaf."""

    rank: Count
    local: TensorSummary | None
    """What arrived at the leaf there: the gradient of that rank alone."""
    reduced: TensorSummary | None
    """Its ``.grad``; under FSDP2 that rank's part of it."""
    difference: TensorSummary | None
    """``local`` less ``reduced``, number by number; under FSDP2 of that part. None where the rank
    did not have both, with their values, when it saved."""
    bucket: Count | None
    """In which bucket of DistributedDataParallel it was reduced, from 0, as far as its log tells.
    """
    ready: Count | None
    """Which of its gradients it was, from 0, in the order in which they were there."""
    odd: bool
    """Whether it is not as on most ranks. The local one: NaN, an infinity or no gradient where most
    have one, or the other way round; among three and more, a norm over 10 times the middle one, or
    under a tenth of it. The reduced one: another than most ranks have."""


class DetailsModel(TypedDict):
    """Everything the panel shows of the selected node.

    Every list is of the first 100; the counts are of all. ``input_count`` is that of ``inputs``,
    ``no_grad_inputs`` and ``constants`` together.
    """

    id: NodeId
    kind: Kind
    op: str
    name: str | None
    about: str
    """A sentence or two: what this node is."""
    forward: str | None
    """The forward signature behind the node, as the installed torch declares it."""
    shape: list[Count] | None
    dtype: str | None
    device: str | None
    requires_grad: bool | None
    """These two None where they are not known, in a static graph."""
    is_leaf: bool | None
    outputs: list[OutputModel]
    output_count: Count
    saved: list[SavedModel]
    saved_count: Count
    inputs: list[InputModel]
    input_count: Count
    no_grad_inputs: list[NoGradInput]
    consumers: list[ConsumerModel]
    """The first 100."""
    consumer_count: Count
    value: ValueModel | None
    """What the operation gave, or what the leaf or constant holds."""
    value_note: str | None
    """Why no value is known, where that needs saying."""
    grad: TensorSummary | None
    grad_output: list[TensorSummary | None] | None
    """One per output of the node."""
    grad_input: list[TensorSummary | None] | None
    """One per entry of ``inputs``."""
    grad_note: GradNotes
    state: NodeState
    contributions: list[ContributionModel] | None
    """Each consumer's share of what arrives here, the first 100; None when no run is shown."""
    contribution_count: Count
    formula: list[FormulaModel]
    chain: ChainModel | None
    """For a leaf, and for a single number of a small graph."""
    source: SourceModel | None
    """The line that made it, and below what else was watched."""
    module: str | None
    """Such as "encoder.layers.0.linear1"; of the outermost module its class name. User text."""
    call: str | None
    """The forward function, "torch.nn.functional.linear". User text."""
    inplace: bool
    inferred: bool
    checkpoint: str | None
    """That it runs forward again in backward, and what that saves."""
    constants: list[ConstantModel]
    """The operands of an operation that are drawn as constants or cuts; ``no_grad_inputs`` has the
    others."""
    cuts: list[CutModel]
    """Of a cut."""
    function: FunctionModel | None
    operations: list[OperationModel]
    """What the backward of a custom Function ran, the first 100; none where that was not noted."""
    operation_count: Count
    explained: str | None
    """Why the ``.grad`` of a leaf is as it is, as ``explain_grad`` says it."""
    ranks: list[RankGradModel]
    """Of a leaf in the files of several ranks: its gradient on each."""
    failed: list[FailedModel]


class StageModel(TypedDict):
    """What of a node's details changes when the cursor gets to ``from_step``, and stays so."""

    from_step: Count
    fields: Annotated[dict[str, Any], SomeOf(DetailsModel)]
    """Some of the fields of its `DetailsModel`."""
