"""The contents of objects that Python's collector does not look into."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_MOST = 10_000  # entries of one array


def contents(container: Any) -> Iterator[tuple[tuple[str, Any], Any]]:
    """Yield what an object holds unseen by the collector, each with how it holds it.

    These are the result of a finished future or task of asyncio, and the entries of an array of
    objects.

    Example:
        >>> import numpy as np
        >>> [step for step, _ in contents(np.array([None, "x"], dtype=object))]
        [('item', 0), ('item', 1)]
    """
    asyncio, numpy = sys.modules.get("asyncio"), sys.modules.get("numpy")
    if asyncio is not None and isinstance(container, asyncio.Future):
        # Not result(): it would also note that an exception was retrieved.
        yield ("attribute", "result()"), getattr(container, "_result", None)
    elif numpy is not None and type(container) is numpy.ndarray and container.dtype == object:
        for place, each in zip(numpy.ndindex(container.shape), container.flat, strict=True):
            if container.size > _MOST:
                break
            yield ("item", place[0] if len(place) == 1 else place), each
