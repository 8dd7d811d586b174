"""The panel's contents: complete, plain JSON, with a true sentence where something is missing."""

from __future__ import annotations

import json

import pytest
import torch
from programs import PROGRAMS, backward, outputs_of

from gradwalk import GraphWidget
from gradwalk.schema.details import DetailsModel
from gradwalk.torch_api.saved_tensors import is_freed, read_saved

CONTRACT = {
    *("id", "kind", "op", "name", "shape", "dtype", "device", "requires_grad", "is_leaf"),
    *("outputs", "saved", "inputs", "grad", "grad_output", "grad_input"),
}


def all_details(widget):
    for i in range(len(widget.model["nodes"])):
        widget.selected = i
        yield widget.details


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_node_of_every_program_before_and_after_backward(name):
    outputs = outputs_of(name)
    widget = GraphWidget(outputs, names={})
    json.dumps(widget.model, allow_nan=False)
    for run in (False, True):
        if run:
            backward(outputs)
        for details in all_details(widget):
            json.dumps(details, allow_nan=False)
            assert set(details) == set(DetailsModel.__annotations__) >= CONTRACT
            for key in ("grad", "grad_output", "grad_input"):
                note = details["grad_note"][key]
                assert (note is None) == bool(details[key]), (details["op"], key)
                if note is not None:
                    assert note[0].isupper() or note[0].islower()
                    assert note.rstrip().endswith((".", "()."))
            if details["grad_input"] is not None:
                assert len(details["grad_input"]) == len(details["inputs"])
            if details["grad_output"] is not None:
                assert len(details["grad_output"]) == max(1, len(details["outputs"]))
    widget.close()


def select(widget, op):
    (node,) = [n["id"] for n in widget.model["nodes"] if n["op"] == op]
    widget.selected = node
    return widget.details


def test_saved_tensors_are_torchs():
    x, m = torch.randn(2, 3, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    y = (x @ m).sigmoid()
    loss = y.sum()
    widget = GraphWidget(loss)
    product = {s["name"]: s for s in select(widget, "MmBackward0")["saved"]}
    assert product["self"]["summary"]["values"] == x.tolist()
    assert product["mat2"]["summary"]["values"] == m.tolist()
    assert product["self_sym_sizes"]["scalar"] == [2, 3]
    sigmoid = {s["name"]: s for s in select(widget, "SigmoidBackward0")["saved"]}
    assert sigmoid["result"]["summary"]["values"] == y.tolist()
    assert not sigmoid["result"]["freed"]
    loss.backward()
    sigmoid = {s["name"]: s for s in widget.details["saved"]}
    assert sigmoid["result"]["freed"]
    assert sigmoid["result"]["summary"] is None
    assert "Freed" in sigmoid["result"]["note"]
    assert widget.details["id"] in widget.state["freed"]


def test_buffers_freed_before_the_widget_was_made_are_marked():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    widget = GraphWidget(y)
    product = select(widget, "MulBackward0")
    assert widget.state["freed"] == [product["id"]]
    assert all(saved["freed"] for saved in product["saved"])


def test_retain_graph_frees_nothing():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    widget = GraphWidget(y)
    y.backward(retain_graph=True)
    assert widget.state["freed"] == []
    y.backward()
    assert len(widget.state["freed"]) == 1
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_freed_is_what_torch_refuses():
    for name in PROGRAMS:
        outputs = outputs_of(name)
        if any(output.grad_fn is None for output in outputs):
            continue
        widget = GraphWidget(outputs, names={})
        assert not any(map(is_freed, widget._source.captured.nodes)), name
        backward(outputs)
        marked = set(widget.state["freed"])
        assert marked == {i for i, n in enumerate(widget._source.captured.nodes) if is_freed(n)}, (
            name
        )
        widget.close()


def test_a_packed_tensor_is_left_packed():
    unpacked = []

    def unpack(tensor):
        unpacked.append(tensor)
        return tensor

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = x.exp()
    (saved,) = read_saved(y.grad_fn)
    assert saved.value is None
    assert "left packed" in saved.note
    assert unpacked == []


def test_a_tensor_changed_in_place_after_it_was_saved():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    z = (y * 1).sum()
    y.detach().add_(1)
    widget = GraphWidget(z)
    (saved,) = select(widget, "ExpBackward0")["saved"]
    assert "Changed in place" in saved["note"]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_why_an_intermediate_has_no_grad_and_how_to_keep_it():
    x = torch.ones(2, requires_grad=True)
    middle = x * 2
    y = middle.sum()
    widget = GraphWidget(y)
    y.backward(retain_graph=True)
    assert "middle.retain_grad()" in select(widget, "MulBackward0")["grad_note"]["grad"]
    middle.retain_grad()
    y.backward()
    details = select(widget, "MulBackward0")
    assert details["grad"]["values"] == middle.grad.tolist() == [1.0, 1.0]


def test_a_hook_changes_what_is_kept_but_not_what_arrived():
    output = PROGRAMS["changed_by_a_hook"]()
    widget = GraphWidget(output, names={})
    output.backward()
    assert select(widget, "ExpBackward0")["grad_output"][0]["values"] == [10.0] * 3


def test_links_between_nodes():
    w, x = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    y = w * x + 3
    widget = GraphWidget(y)
    product = select(widget, "MulBackward0")
    assert [(i["argument"], i["label"]) for i in product["inputs"]] == [
        ("self", "w"),
        ("other", "x"),
    ]
    assert [(c["node"], c["argument"]) for c in product["consumers"]] == [(0, "self")]
    total = select(widget, "AddBackward0")
    assert total["no_grad_inputs"] == [{"arg_nr": 1, "argument": "other"}]
    assert total["outputs"][0]["is_root"]


def test_what_a_node_is():
    x = torch.ones(3, requires_grad=True)
    y = torch.addmm(torch.ones(1), x[None], x[:, None])
    widget = GraphWidget(y)
    details = select(widget, "AddmmBackward0")
    assert details["forward"].startswith("addmm(Tensor self, Tensor mat1, Tensor mat2")
    assert "the gradient of mat1 and mat2 (self needs none)" in details["about"]
    custom = GraphWidget(outputs_of("custom_function"), names={})
    details = select(custom, "MultiplyAddBackward")
    assert details["forward"].startswith("MultiplyAdd.forward(")
    assert "MultiplyAdd.backward" in details["about"]
    leaf = GraphWidget(x)
    leaf.selected = 0
    assert leaf.details["about"].startswith("x is a leaf")
    assert leaf.details["value"]["values"] == [1.0, 1.0, 1.0]


def test_a_hook_that_changed_what_arrived_is_told():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    widget = GraphWidget(y.sum(), names={"x": x, "y": y})
    widget.backward()
    notes = {}
    for node in range(3):
        widget.selected = node
        notes[widget.details["op"]] = [grad["note"] for grad in widget.details["grad_output"]]
    (changed,) = notes["MulBackward0"]
    assert "A hook on this tensor changed" in changed
    assert f"its norm was {3**0.5:.6g}" in changed
    assert notes["SumBackward0"] == notes["AccumulateGrad"] == [None]


def test_an_operation_without_derivative_is_said_to_have_none():
    x = torch.randn(5, 2, 4).log_softmax(-1).requires_grad_()
    length = torch.tensor([5, 5])
    loss = torch.nn.functional.ctc_loss(x, torch.ones(2, 3, dtype=torch.long), length, length - 2)
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    widget = GraphWidget(grad)
    widget.selected = 0
    assert "no derivative" in widget.details["about"]
    with pytest.raises(RuntimeError, match="not implemented"):
        grad.sum().backward()
