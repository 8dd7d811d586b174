"""The wire format between Python and the browser.

This is its one definition: ``make types`` writes the same in TypeScript, and ``make check`` fails
while it has not. NaN and infinities are not JSON: they travel as the strings "nan", "inf" and
"-inf".
"""

from __future__ import annotations

from .backward import (
    GrownModel,
    MarkModel,
    RunModel,
    SeedModel,
    StateModel,
    StepModel,
    TransportModel,
)
from .comparison import (
    FewModel,
    LeafCellModel,
    LeafRowModel,
    LeafTableModel,
    MergedStepModel,
    PaneModel,
    PassModel,
)
from .details import (
    ChainModel,
    ConstantModel,
    ConsumerModel,
    ContributionModel,
    CutModel,
    DetailsModel,
    FactorModel,
    FailedModel,
    FormulaModel,
    GradNotes,
    InputModel,
    OutputModel,
    PathModel,
    SavedModel,
    SourceModel,
    StageModel,
    TensorSummary,
    ValueModel,
)
from .diagnosis import FindingModel, MemoryModel, NumberModel
from .graph import (
    DtypesModel,
    EdgeModel,
    GraphModel,
    ModulesModel,
    NodeModel,
    NoGradInput,
    RootModel,
)
from .traits import AskedTraits, AskMessage, CompareTraits, StartMessage, Traits
from .values import (
    DIRECTIONS,
    Direction,
    EdgeKind,
    JsonNumber,
    Kind,
    NodeState,
    Values,
)

__all__ = [
    "DIRECTIONS",
    "AskMessage",
    "AskedTraits",
    "ChainModel",
    "CompareTraits",
    "ConstantModel",
    "ConsumerModel",
    "ContributionModel",
    "CutModel",
    "DetailsModel",
    "Direction",
    "DtypesModel",
    "EdgeKind",
    "EdgeModel",
    "FactorModel",
    "FailedModel",
    "FewModel",
    "FindingModel",
    "FormulaModel",
    "GradNotes",
    "GraphModel",
    "GrownModel",
    "InputModel",
    "JsonNumber",
    "Kind",
    "LeafCellModel",
    "LeafRowModel",
    "LeafTableModel",
    "MarkModel",
    "MemoryModel",
    "MergedStepModel",
    "ModulesModel",
    "NoGradInput",
    "NodeModel",
    "NodeState",
    "NumberModel",
    "OutputModel",
    "PaneModel",
    "PassModel",
    "PathModel",
    "RootModel",
    "RunModel",
    "SavedModel",
    "SeedModel",
    "SourceModel",
    "StageModel",
    "StartMessage",
    "StateModel",
    "StepModel",
    "TensorSummary",
    "Traits",
    "TransportModel",
    "ValueModel",
    "Values",
]
