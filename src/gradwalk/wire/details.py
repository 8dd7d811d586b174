"""What the panel shows of a node."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from .graph import NoGradInput
from .values import JsonNumber, Kind, NodeState, Values


class TensorSummary(TypedDict):
    """A tensor in at most 64 numbers and its statistics."""

    shape: list[int]
    dtype: str
    device: str
    numel: int
    values: Values | None
    truncated: bool
    indices: list[list[int]] | None
    min: JsonNumber | None
    max: JsonNumber | None
    mean: JsonNumber | None
    norm: JsonNumber | None
    nan: int | None
    inf: int | None
    zeros: int | None
    note: str | None


class OutputModel(TypedDict):
    """One output of the forward operation behind a node."""

    output_nr: int
    name: str | None
    shape: list[int] | None
    dtype: str | None
    device: str | None
    is_root: bool


class InputModel(TypedDict):
    """One edge out of a node, seen from that node."""

    input_nr: int
    argument: str | None
    node: int
    output_nr: int
    label: str
    shape: list[int] | None


class ConsumerModel(TypedDict):
    """One edge into a node, seen from that node."""

    node: int
    input_nr: int | None
    argument: str | None
    output_nr: int
    label: str


class SavedModel(TypedDict):
    """Something a node keeps for backward: a tensor's summary, or a plain value."""

    name: str
    summary: TensorSummary | None
    scalar: Any
    freed: bool
    note: str | None


class ContributionModel(TypedDict):
    """One consumer's share of the gradient that arrives at a node, and the sum so far."""

    step: int
    consumer: int | None
    label: str
    input_nr: int | None
    argument: str | None
    output_nr: int
    grad: TensorSummary | None
    total: TensorSummary | None


class FormulaModel(TypedDict):
    """The derivative with respect to one input, as code; ``source`` says whose words they are."""

    input_nr: int
    argument: str | None
    code: str
    numbers: str | None
    source: Literal["gradwalk", "torch"]
    note: str | None


class FactorModel(TypedDict):
    """One edge of a path from an output to a leaf, and the derivative along it."""

    edge: int
    node: int
    target: int
    code: str
    value: Values | None
    note: str | None


class PathModel(TypedDict):
    """One way from an output to a leaf."""

    factors: list[FactorModel]
    written: str | None
    product: Values | None


class ChainModel(TypedDict):
    """The chain rule from the outputs to one leaf: a product along each path, summed over paths."""

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
    line: int
    text: str
    function: str


class ConstantModel(TypedDict):
    """An operand that needs no grad and is drawn, seen from the node that takes it."""

    node: int
    argument: str | None
    input_nr: int | None
    label: str
    shape: list[int] | None


class CutModel(TypedDict):
    """Where gradient was lost on the way to an operand, and the node of the tensor before it."""

    how: str
    node: int
    label: str
    line: SourceModel | None
    region: SourceModel | None


class FailedModel(TypedDict):
    """A part of the details that could not be worked out, and a sentence why."""

    part: str
    sentence: str


class DetailsModel(TypedDict):
    """Everything the panel shows of the selected node.

    Every list is of the first 100; the counts are of all. ``input_count`` is that of ``inputs``,
    ``no_grad_inputs`` and ``constants`` together.
    """

    id: int
    kind: Kind
    op: str
    name: str | None
    about: str
    forward: str | None
    shape: list[int] | None
    dtype: str | None
    device: str | None
    requires_grad: bool | None
    is_leaf: bool | None
    outputs: list[OutputModel]
    output_count: int
    saved: list[SavedModel]
    saved_count: int
    inputs: list[InputModel]
    input_count: int
    no_grad_inputs: list[NoGradInput]
    consumers: list[ConsumerModel]
    consumer_count: int
    value: TensorSummary | None
    grad: TensorSummary | None
    grad_output: list[TensorSummary | None] | None
    grad_input: list[TensorSummary | None] | None
    grad_note: GradNotes
    state: NodeState
    contributions: list[ContributionModel] | None
    contribution_count: int
    formula: list[FormulaModel]
    chain: ChainModel | None
    source: SourceModel | None
    module: str | None
    call: str | None
    inplace: bool
    inferred: bool
    constants: list[ConstantModel]
    cuts: list[CutModel]
    explained: str | None
    failed: list[FailedModel]
