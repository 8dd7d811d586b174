"""The dtypes of nodes, as they travel."""

from __future__ import annotations

from ..wire import DtypesModel, PackedDtypes
from .column import pack_column, unpack_column


def pack_dtypes(dtypes: DtypesModel) -> PackedDtypes:
    """Pack the dtype of every node."""
    return {"names": dtypes["names"], "nodes": pack_column(dtypes["nodes"])}


def unpack_dtypes(packed: PackedDtypes) -> DtypesModel:
    """The inverse of `pack_dtypes`."""
    return {"names": packed["names"], "nodes": unpack_column(packed["nodes"])}
