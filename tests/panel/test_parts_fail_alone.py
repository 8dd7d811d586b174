"""A part that cannot be worked out becomes a sentence in its place, and nothing else fails."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from fresh import fresh

import gradwalk.panel.details as details_module
from gradwalk import GraphWidget, compare
from gradwalk.sources.live_graph import LiveGraph

FIRST_USE = {
    "where": "torch.where(x > 1, x, x * 2).sum()",
    "smooth_l1_loss": "F.smooth_l1_loss(x, torch.zeros(2))",
    "huber_loss": "F.huber_loss(x, torch.zeros(2))",
    "binary_cross_entropy": "F.binary_cross_entropy(x.sigmoid(), torch.ones(2))",
    "one_where": "torch.where(x[:1] > 1, x[:1], x[1:]).sum()",
    "clamp": "x.clamp_max(1.5).sum()",
}


@pytest.mark.parametrize("written", FIRST_USE.values(), ids=FIRST_USE)
def test_formulas_run_in_a_process_where_nothing_ran_before(written):
    fresh(
        f"""
        from evaluate import evaluate
        from gradwalk.derivatives.formulas import formulas
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = {written}
        widget = GraphWidget(y)
        widget.backward()
        for node in range(len(widget.model["nodes"])):
            widget.selected = node
            assert widget.details["failed"] == [] and widget._fault is None
        for node in filter(None, [y.grad_fn, *(child for child, _ in y.grad_fn.next_functions)]):
            grad = torch.ones_like(y) if node is y.grad_fn else None
            for formula in formulas(node):
                if grad is not None and formula["source"] == "gradwalk":
                    assert evaluate(formula, node, [grad]) is not None, formula
        """
    )


def test_formulas_run_under_modes_of_the_users():
    fresh(
        """
        from torch.utils.flop_counter import FlopCounterMode
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.overrides import TorchFunctionMode
        from evaluate import evaluate
        from gradwalk.derivatives.formulas import formulas

        class Mine(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                import math
                return func(*args, **(kwargs or {}))

        class Other(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                import math
                return func(*args, **(kwargs or {}))

        x = torch.ones(2, requires_grad=True)
        y = (x * 3).sum()
        widget = GraphWidget(y); widget.backward()
        for mode in (FlopCounterMode(display=False), Mine(), Other()):
            with mode:
                node = y.grad_fn.next_functions[0][0]
                formula, = formulas(node)
                assert evaluate(formula, node, [torch.ones(2)]).tolist() == [3.0, 3.0]
                for node in range(len(widget.model["nodes"])):
                    widget.selected = node
                    assert widget.details["failed"] == []
        """
    )


def looked_at(*outputs, run=True):
    """A widget whose every node was looked at, before backward and at its start and end."""
    widget = GraphWidget(*outputs)
    for turn in range(2 if run else 1):
        if turn:
            widget.backward()
        for cursor in {0, widget.cursor}:
            widget.cursor = cursor
            for node in range(len(widget.model["nodes"])):
                widget.selected = node
                assert widget.details["failed"] == []
                assert widget._fault is None
            assert widget.state is not None
            assert widget.transport is not None
    return widget


def kinds():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    z = torch.tensor([1 + 2j], requires_grad=True)
    one = torch.ones(1, requires_grad=True)
    yield "fft", torch.fft.fft(x)[1].abs()
    yield "complex", (z * z).abs().sum()
    yield "complex sum", torch.tensor([1 + 2j, 3j], requires_grad=True).sum().abs()
    yield "complex to real", z.real.sum() + z.imag.sum()
    yield "mkldnn", torch.ones(1).to_mkldnn().requires_grad_().to_dense().sum()
    yield "sparse", torch.ones(1).to_sparse().requires_grad_().to_dense().sum()
    yield "sparse csr", torch.ones(1, 1).to_sparse_csr().requires_grad_().to_dense().sum()
    with torch.autograd.graph.save_on_cpu():
        packed = (torch.zeros(3, requires_grad=True) ** 2).sum() + (one**2).sum()
    yield "save_on_cpu", packed
    jagged = torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=torch.jagged, requires_grad=True
    )
    yield "jagged", (jagged * 2).values().sum()


@pytest.mark.parametrize(("name", "output"), list(kinds()), ids=[name for name, _ in kinds()])
def test_every_kind_of_number_can_be_looked_at(name, output, tmp_path):
    with closing(looked_at(output)) as widget:
        widget.to_html(tmp_path / "page.html")


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_output(layout):
    nested = torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=layout, requires_grad=True
    )
    with closing(looked_at(nested * 2, run=False)) as widget:
        assert "no one shape" in widget.transport["blocked"]


def test_sizes_that_are_symbols():
    from torch._dynamo.source import ConstantSource  # noqa: PLC0415
    from torch._subclasses import FakeTensorMode  # noqa: PLC0415
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv  # noqa: PLC0415
    from torch.fx.experimental.symbolic_shapes import StatelessSymbolicContext as Context  # noqa: PLC0415

    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(
        torch.ones(5, 2, requires_grad=True),
        source=ConstantSource("x"),
        symbolic_context=Context([DimDynamic.DYNAMIC, DimDynamic.STATIC]),
    )
    with closing(looked_at((x * 2).sum(), run=False)) as widget:
        assert None in [node["shape"] for node in widget.model["nodes"]]


def test_a_class_that_refuses_to_tell():
    class Shy(torch.Tensor):
        def numel(self):
            raise ValueError("no")

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func in (torch.Tensor.numel, torch.Tensor.detach, torch.Tensor.shape.__get__):
                raise ValueError("no")
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(3).as_subclass(Shy).requires_grad_()
    with closing(GraphWidget((x * 2).sum())) as widget:
        for node in range(len(widget.model["nodes"])):
            widget.selected = node
            assert widget.details["id"] == node


def test_a_variable_whose_key_cannot_be_written():
    class Key:
        def __repr__(self):
            raise ValueError("no")

    x = torch.ones(2, requires_grad=True)
    things = {Key(): x, torch.ones(3): x, "good": x * 2}
    with closing(GraphWidget(things["good"].sum())) as widget:
        assert "x" in [node["name"] for node in widget.model["nodes"]]


@pytest.mark.parametrize("part", ["chain_model", "_formulas", "saved_models", "reason_of"])
def test_whatever_fails_takes_nothing_with_it(part, monkeypatch, tmp_path):
    def fails(*args, **kwargs):
        raise KeyError(part)

    x = torch.tensor(3.0, requires_grad=True)
    with closing(GraphWidget((x * 2) ** 2)) as widget:
        whole = {}
        widget.backward()
        for node in range(3):
            widget.selected = node
            whole[widget.selected] = widget.details
        monkeypatch.setattr(details_module, part, fails)
        widget.selected = None
        missing = set()
        for node in range(3):
            widget.selected = node
            found = widget.details
            for failed in found["failed"]:
                missing.add(failed["part"])
                assert f"KeyError: '{part}'" in failed["sentence"]
                assert failed["sentence"].endswith(".")
            counts = {"saved": "saved_count"}
            empty = {f["part"] for f in found["failed"]}
            empty |= {counts[each] for each in empty if each in counts}
            same = found.keys() - empty - {"failed"}
            assert {k: found[k] for k in same} == {k: whole[widget.selected][k] for k in same}
        assert len(missing) == 1
        widget.step_back(2)
        widget.step(2)
        assert x.grad == 24
        assert len(widget.steps) == 3
        assert widget.state["runs"] == 1
        assert widget.run is not None
        assert widget._fault is None
        widget.to_html(tmp_path / "page.html")


def refuse(*_, **__):
    raise NotImplementedError("not on this backend")


@pytest.mark.parametrize(
    ("several", "part"),
    [
        *((False, part) for part in ("state", "transport", "details", "run")),
        *((True, part) for part in ("state", "transport", "details")),
    ],
)
def test_a_part_of_a_widget_that_fails_takes_no_other_with_it(monkeypatch, several, part):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    outputs = [(x * 2).sum(), (x * 3).sum()]
    widget = compare(outputs) if several else GraphWidget(outputs[0])
    with closing(widget):
        widget.selected = 0
        monkeypatch.setattr(LiveGraph, part, property(refuse) if part == "run" else refuse)
        widget.backward()
        assert widget._fault is not None
        assert "NotImplementedError: not on this backend" in widget._fault
        assert widget.cursor == len(widget.steps) > 0
        assert x.grad is not None
        monkeypatch.undo()
        widget.backward()
        assert widget._fault is None
        assert widget.details
