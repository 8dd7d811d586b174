"""Every formula of the table gives what torch's own node gives, on random numbers."""

from __future__ import annotations

import linecache
import math
from collections import defaultdict

import pytest
import torch
import torch.nn.functional as F
from engine import operations_behind
from evaluate import evaluate, with_numbers
from formula_programs import PROGRAMS, X, aten, c, p, r
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_programs import MORE_PROGRAMS
from torch.autograd.graph import GradientEdge, save_on_cpu
from torch.utils.checkpoint import checkpoint

from gradwalk.derivatives.formulas import DERIVATIVES, formulas
from gradwalk.panel.details import written_backward
from gradwalk.torch_api.nodes import op_name
from gradwalk.torch_api.signatures import signature

pytestmark = pytest.mark.one_python


def random_grads(node):
    """A random gradient for every output."""
    return [torch.randn(tuple(each.shape), dtype=each.dtype) for each in node._input_metadata]


def torchs(node, grads):
    """The gradients that the engine itself passes to each next function of a node."""
    edges = list(dict.fromkeys(edge for edge in node.next_functions if edge[0] is not None))
    outputs = [GradientEdge(node, nr) for nr in range(len(grads))]
    found = torch.autograd.grad(
        outputs,
        [GradientEdge(*edge) for edge in edges],
        grads,
        retain_graph=True,
        allow_unused=True,
    )
    return dict(zip(edges, found, strict=True))


def check(node):
    """Compare all formulas of a node with torch, and say which arguments had one of our own."""
    if op_name(node) == "NotImplemented":  # torch has no derivative
        assert not any(each["code"] for each in formulas(node))
        return set()
    grads, ours = random_grads(node), defaultdict(list)
    covered = set()
    for formula in formulas(node):
        value = evaluate(formula, node, grads)
        ours_to_run = formula["source"] == "gradwalk" and formula["code"] != ""
        assert (value is not None) == ours_to_run, formula
        ours[node.next_functions[formula["arg_nr"]]].append(value)
        if value is not None:
            covered.add((type(node).__name__, formula["argument"].partition("[")[0]))
    for edge, expected in torchs(node, grads).items():
        if any(value is None for value in ours[edge]):
            continue
        value = sum(ours[edge][1:], start=ours[edge][0])
        # None is torch's way to write zeros.
        true = torch.zeros_like(value) if expected is None else expected
        torch.testing.assert_close(
            value, true, equal_nan=True, msg=lambda m: f"{formulas(node)}\n{m}"
        )
    return covered


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


ALL_PROGRAMS = {**PROGRAMS, **MORE_PROGRAMS}


def covered_by(name):
    torch.manual_seed(0)
    return set().union(*(check(node) for node in operations_behind(*ALL_PROGRAMS[name]())))


# torch warns of what it will remove, and of what is new.
FILTERED = pytest.mark.filterwarnings("ignore:torch.cholesky", "ignore:index_reduce")


# torch up to 2.11 has no derivative of the first two, and 2.14 no torch.cholesky.
NOT_IN_EVERY_RELEASE = {"AminmaxBackward0", "NarrowCopyBackward0", "CholeskyBackward0"}


@FILTERED
@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_every_formula_gives_what_torch_gives(name):
    covered_by(name)


@FILTERED
def test_every_row_is_run_by_a_program():
    covered = set().union(*map(covered_by, ALL_PROGRAMS))
    rows = {
        (op, argument)
        for op, row in DERIVATIVES.items()
        for argument in row
        if op not in NOT_IN_EVERY_RELEASE or hasattr(torch._C._functions, op)
    }
    # torch refuses a random gradient of complex eigenvectors: torch's own samples run this one.
    rows -= {("LinalgEigBackward0", "self")}
    ran = {(op.removesuffix("_copy"), argument) for op, argument in covered}
    assert not rows - ran


sizes = st.lists(st.integers(1, 3), max_size=3)


@st.composite
def broadcast_pairs(draw):
    """Two shapes that broadcast together, either of which may be the smaller."""
    full = draw(sizes)
    shapes = []
    for _ in range(2):
        shape = [size if draw(st.booleans()) else 1 for size in full]
        shapes.append(shape[draw(st.integers(0, len(shape))) :])
    return shapes


BINARY = [torch.add, torch.sub, torch.mul, torch.div, torch.pow, torch.maximum, torch.minimum]
BINARY += [torch.atan2, torch.hypot, torch.rsub, lambda x, y: torch.where(x > y, x, y)]


@given(broadcast_pairs(), st.sampled_from(BINARY), st.sampled_from(["both", "first", "second"]))
@settings(max_examples=150, deadline=None)
def test_broadcasting(shapes, operation, with_grad):
    first, second = p(*shapes[0]), p(*shapes[1])
    first.requires_grad_(with_grad != "second")
    second.requires_grad_(with_grad != "first")
    assert check(operation(first, second).grad_fn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex128])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x / y,
        lambda x, y: x.exp() - y.sin(),
        lambda x, y: x.tanh() * y.sigmoid(),
        lambda x, y: x @ y,
        lambda x, y: torch.addmm(x, x, y, beta=2),
        lambda x, y: (x * x).sum(0) + y.mean(-1),
        lambda x, y: (x**3).abs() + y.sqrt().abs(),
    ],
)
def test_other_dtypes(operation, dtype):
    x, y = (torch.rand(3, 3).to(dtype).add(0.1).requires_grad_() for _ in range(2))
    for node in operations_behind(operation(x, y)):
        check(node)


def code_of(output):
    return [formula["code"] for formula in formulas(output.grad_fn)]


def test_what_is_trivial_for_the_node_is_left_out():
    assert code_of(r(*X) * r(*X)) == ["grad * other", "grad * self"]
    assert code_of(r(3, 1) * r(4)) == [
        "(grad * other).sum_to_size(3, 1)",
        "(grad * self).sum_to_size(4)",
    ]
    assert code_of(c(4) * c(4)) == ["grad * other.conj()", "grad * self.conj()"]
    assert code_of(r(*X) - r()) == ["grad", "(-grad).sum()"]
    assert code_of(torch.sub(r(*X), r(*X), alpha=2)) == ["grad", "-grad * alpha"]
    assert code_of(r(2, 3) @ r(3, 4)) == ["grad @ mat2.T", "self.T @ grad"]
    assert code_of(r(*X).relu()) == ["torch.where(result <= 0, 0, grad)"]
    assert code_of(r(*X, dtype=torch.float32) + r(*X)) == ["grad.to(torch.float32)", "grad"]


def test_one_formula_per_edge_and_none_for_a_leaf():
    x = r(*X)
    assert formulas((x * x.detach()).grad_fn)[0]["arg_nr"] == 0
    (only,) = formulas((x.detach() * x).grad_fn)
    assert (only["arg_nr"], only["argument"], only["source"]) == (1, "other", "gradwalk")
    assert formulas((x * 2).grad_fn.next_functions[0][0]) == []


def test_torchs_own_formula_where_we_have_none():
    node = torch.renorm(r(3, 4), 2, 0, 1.0).grad_fn
    (first,) = formulas(node)
    assert first["source"] == "torch"
    assert first["code"] == signature("RenormBackward0").formulas["self"]
    assert signature("RenormBackward0").forward in first["note"]
    assert evaluate(first, node, random_grads(node)) is None
    assert with_numbers(first, node, random_grads(node)) is None


def test_a_derivative_that_torch_does_not_have():
    (formula,) = formulas((r(3) * 1).asinh_().grad_fn)
    assert formula["code"] == ""
    assert "asinh_(Tensor(a!) self)" in formula["note"]


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (lambda: F.avg_pool2d(r(1, 2, 6, 6), 2), None),
        (lambda: torch.polygamma(2, p(*X)), "grad * torch.polygamma(n + 1, self)"),
        (lambda: r(*X).erfc(), None),
        (lambda: torch.maximum(r(3, 1), r(4)), None),
        (lambda: torch.fmod(r(3, 1), r(4)), None),
        (lambda: aten._fft_c2c(c(4), [0], 0, True), None),
        (lambda: F.pad(r(1, 2, 4), (1, 1), mode="reflect"), None),
        (lambda: F.grid_sample(r(1, 1, 3, 3), r(1, 2, 2, 2), align_corners=True), None),
        (lambda: F.interpolate(r(1, 2, 4, 4), scale_factor=2, mode="bicubic"), None),
        (lambda: torch.nextafter(r(3), r()), None),
        (lambda: F.multi_margin_loss(r(*X), torch.tensor([0, 1, 2])), None),
    ],
)
def test_torchs_own_formulas_as_python(output, code):
    """Those that Python can say run like our own, whatever the torch that is installed."""
    node = output().grad_fn
    try:
        assert check(node)
    except NotImplementedError as error:
        pytest.skip(f"torch itself says: {error}")
    assert op_name(node) not in DERIVATIVES
    if code is not None:
        assert [formula["code"] for formula in formulas(node)] == [code]


def test_no_formula_is_claimed_to_run_with_a_compressed_sparse_tensor():
    """Python's `.T` and torch's own product of it raise."""
    sparse = torch.eye(2).to_sparse_csr()
    (formula,) = formulas((torch.randn(3, 2, requires_grad=True) @ sparse).grad_fn)
    assert formula["source"] == "torch"


def test_a_place_that_cannot_be_known():
    joined = torch.cat([r(1).detach(), r(2), r(3).detach()])
    assert [formula["source"] for formula in formulas(joined.grad_fn)] == ["torch"]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("a user's backward is never called")


class Long(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x * 1)
    backward = staticmethod(eval("lambda ctx, grad: grad"))


def test_a_custom_function_has_its_source_instead():
    node = Doubled.apply(r(3)).grad_fn
    assert formulas(node) == []
    found = written_backward(Doubled)
    assert found.code.startswith("@staticmethod\ndef backward(ctx, grad):\n    raise")
    assert (found.method, found.file) == ("backward", __file__)
    assert linecache.getline(found.file, found.line).strip() == "@staticmethod"
    assert written_backward(Long) is None


def test_a_node_written_by_hand_in_cpp():
    x = r(*X) * 1
    x[0].mul_(2)
    (formula,) = formulas(x.grad_fn)
    assert (formula["code"], formula["source"]) == ("", "gradwalk")
    assert "in-place" in formula["note"]


def test_text_from_elsewhere_is_never_run():
    y = r(3).exp()
    (formula,) = formulas(y.grad_fn)
    grads = random_grads(y.grad_fn)
    true = evaluate(formula, y.grad_fn, grads)
    torch.testing.assert_close(evaluate({**formula, "code": "1 / 0"}, y.grad_fn, grads), true)


def freed_nodes():
    outputs = [output for program in PROGRAMS.values() for output in program()]
    nodes = [output.grad_fn for output in outputs]
    for output in outputs:
        output.backward(torch.ones_like(output))
    return nodes


def test_freed_buffers():
    for node in freed_nodes():
        for formula in formulas(node):
            assert formula["code"] or type(node).__name__ == "CopySlices", node
            value = evaluate(formula, node, random_grads(node))
            assert value is None or formula["source"] == "gradwalk"
    y = r(3).exp()
    y.sum().backward()
    (formula,) = formulas(y.grad_fn)
    assert formula["code"] == "grad * result"
    assert evaluate(formula, y.grad_fn, [torch.ones(3)]) is None
    assert with_numbers(formula, y.grad_fn, [torch.ones(3)]) is None


class Unpacked(Exception):
    pass


def refuses(_):
    raise Unpacked


def test_packed_tensors_stay_packed():
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, refuses):
        y = p(1).exp() * p(1)
    for node in operations_behind(y):
        for formula in formulas(node):
            assert formula["source"] == "gradwalk"
            assert evaluate(formula, node, [torch.ones(1)]) is None
            assert with_numbers(formula, node, [torch.ones(1)]) is None


def test_save_on_cpu_and_checkpoint():
    ran = []
    with save_on_cpu():
        saved = r(3).exp()

    def forward(x):
        ran.append(None)
        return x.exp()

    kept = checkpoint(forward, r(3), use_reentrant=False)
    for output in (saved, kept):
        (formula,) = formulas(output.grad_fn)
        assert formula["code"] == "grad * result"
        assert evaluate(formula, output.grad_fn, [torch.ones(3)]) is None
    assert len(ran) == 1


def test_a_saved_tensor_changed_in_place():
    y = r(3).exp()
    y.add_(1)
    node = y.grad_fn.next_functions[0][0]
    (formula,) = formulas(node)
    assert formula["code"] == "grad * result"
    assert evaluate(formula, node, [torch.ones(3)]) is None


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if "mul" in func.__name__ and torch.is_grad_enabled() is False:
            raise Unpacked
        return super().__torch_function__(func, types, args, kwargs)


def test_no_method_of_a_users_tensor_class_is_called():
    y = torch.rand(3).as_subclass(Loud) * r(3)
    (node,) = (each for each in operations_behind(y) if type(each).__name__ == "MulBackward0")
    (formula,) = formulas(node)
    assert formula["code"] == "grad * self"
    assert evaluate(formula, node, [torch.ones(3)]) is None


def test_nothing_is_recorded_and_no_random_number_drawn():
    state = torch.get_rng_state()
    y = p(3).exp()
    torch.set_rng_state(state)
    grad = r(3).detach().requires_grad_()
    state = torch.get_rng_state()
    with torch.autocast("cpu"):
        value = evaluate(formulas(y.grad_fn)[0], y.grad_fn, [grad])
    assert not value.requires_grad
    assert torch.equal(torch.get_rng_state(), state)


def test_autocast_of_the_moment_does_not_change_the_value():
    y = r(3, 4, dtype=torch.float32) @ r(4, 5, dtype=torch.float32)
    formula, grads = formulas(y.grad_fn)[0], random_grads(y.grad_fn)
    with torch.autocast("cpu"):
        value = evaluate(formula, y.grad_fn, grads)
    assert torch.equal(value, evaluate(formula, y.grad_fn, grads))


def test_an_output_without_gradient_counts_as_zero():
    parts = r(4).split(2)
    node = parts[0].grad_fn
    value = evaluate(formulas(node)[0], node, [torch.ones(2), None])
    assert value.tolist() == [1, 1, 0, 0]
    assert evaluate(formulas(node)[0], node, [None, None]) is None


PYTHON = {**{name: getattr(math, name) for name in dir(math)}, "__builtins__": {}}


def left_and_right(text):
    left, _, right = text.rpartition(" = ")
    return eval(left or right, PYTHON), eval(right, PYTHON)


def number(x):
    return torch.tensor(float(x), dtype=torch.float64, requires_grad=True)


SCALARS = [
    lambda x, y: x + y,
    lambda x, y: x - 2 * y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: x**2 + y**3,
    lambda x, y: y.abs() ** x,
    lambda x, y: 2**x,
    lambda x, y: (x * 3).exp() + y.abs().log(),
    lambda x, y: x.sin() * y.cos(),
    lambda x, y: x.tanh() + y.sigmoid(),
    lambda x, y: x.relu() + (-y).relu(),
    lambda x, y: torch.where(x > y, x * 2, y * 3),
    lambda x, y: torch.maximum(x, y).abs(),
    lambda x, y: x.reshape(1, 1) @ y.reshape(1, 1),
    lambda x, y: (x.expand(1) * y).sum() + y.mean(),
    lambda x, y: torch.nn.functional.gelu(x) + torch.nn.functional.silu(y),
    lambda x, y: (x - y).clamp(-1, 1).square().sqrt(),
]


@pytest.mark.parametrize("program", SCALARS)
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3))
@settings(max_examples=15, deadline=None)
def test_numbers(program, x, y, grad):
    x, y, grad = (round(each, 2) + 0.005 for each in (x, y, grad))
    seen = 0
    for node in operations_behind(program(number(x), number(y))):
        grads = [torch.full(tuple(each.shape), grad).double() for each in node._input_metadata]
        expected = torchs(node, grads)
        for formula in formulas(node):
            text = with_numbers(formula, node, grads)
            if text is not None:
                seen += 1
                assert len(text) <= 80
                true = expected[node.next_functions[formula["arg_nr"]]].item()
                if not math.isfinite(true):  # Python refuses to divide by zero
                    assert text.endswith(f" = {true}")
                    continue
                left, right = left_and_right(text)
                assert math.isclose(right, true, rel_tol=1e-5, abs_tol=1e-9), text
                assert math.isclose(left, right, rel_tol=1e-3, abs_tol=1e-4), text
    assert seen


def written(output, grad=1.0):
    node = output.grad_fn
    grads = [torch.full(tuple(output.shape), grad)]
    return [with_numbers(formula, node, grads) for formula in formulas(node)]


def test_numbers_as_they_are_read():
    assert written(number(5) ** 2) == ["1 * (2 * 5 ** (2 - 1)) = 10"]
    assert written(number(-5) ** 2) == ["1 * (2 * (-5) ** (2 - 1)) = -10"]
    assert written(number(3) * number(4)) == ["1 * 4 = 4", "1 * 3 = 3"]
    assert written(number(3) + number(4), -2.0) == ["-2", "-2"]
    assert written(number(3) - number(4), -2.0) == ["-2", "2"]
    assert written(number(2).relu(), 3.0) == ["3"]
    assert written(number(1).sin()) == ["1 * cos(1) = 0.540302"]
    assert written(number(0).log()) == ["1 / 0 = inf"]
    assert written(p(3).exp()) == [None]
    assert written(r(1) * r(3)) == [None, None]
    assert written(c(1).exp()) == [None]
