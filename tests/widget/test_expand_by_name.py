"""A node is expanded by the name of its tensor."""

from __future__ import annotations

import pytest
import torch

from gradwalk import GraphWidget


def test_a_name_is_as_good_as_an_id():
    double = torch.compile(lambda x: x.sin() * 2, backend="aot_eager")
    y = double(torch.ones(3, requires_grad=True))
    widget = GraphWidget(y)
    before = len(widget.model["nodes"])
    widget.expand("y")
    assert len(widget.model["nodes"]) > before
    widget.collapse("y")
    assert len(widget.model["nodes"]) == before
    with pytest.raises(ValueError, match="No node is called 'z'"):
        widget.expand("z")
    with pytest.raises(TypeError, match="Give the id or the name of a node"):
        widget.expand(1.5)  # type: ignore[arg-type]
    widget.close()
