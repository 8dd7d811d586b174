"""`check`: wrong backwards are found, right ones are not, as torch's gradcheck has it."""

from __future__ import annotations

import math

import pytest
import torch
from checkpointed import SAVED_IS_TOLD
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, check
from gradwalk.laboratory.check import MOST_ENTRIES


def made(backward, forward=None, save=None):
    """A Function of x, w and a number: (x * w) ** 2 * scale, with some backward."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, scale):
            ctx.save_for_backward(*(save(x, w) if save else (x, w)))
            ctx.scale = scale
            return forward(x, w, scale) if forward else (x * w) ** 2 * scale

    Made.backward = staticmethod(backward)
    return Made


def right(ctx, grad):
    x, w = ctx.saved_tensors
    down = grad * 2 * x * w * ctx.scale
    return (
        down * w if ctx.needs_input_grad[0] else None,
        down * x if ctx.needs_input_grad[1] else None,
        None,
    )


def wrong_sign(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    return dx, -dw, None


def one_entry(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    dx = dx.clone()
    dx.view(-1)[-1] *= 1.01
    return dx, dw, None


def no_gradient(ctx, grad):
    return right(ctx, grad)[0], None, None


def missing_none(ctx, grad):
    return right(ctx, grad)[:2]


def wrong_shape(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    return dx.flatten()[:1].expand(7), dw, None


def summed(ctx, grad):
    dx, dw, _ = right(ctx, grad)
    return dx.sum().reshape(1).expand(dx.shape), dw, None


def in_place(ctx, grad):
    x, w = ctx.saved_tensors
    down = grad * 2 * w * ctx.scale * x
    result = down * w, down * x, None
    x.mul_(2)
    return result


def in_place_unseen(ctx, grad):
    x, w = ctx.saved_tensors
    down = grad * 2 * w * ctx.scale * x
    result = down * w, down * x, None
    x.data.mul_(2)
    return result


def ignores_grad(ctx, grad):
    return right(ctx, torch.ones_like(grad))


FAULTS = [
    wrong_sign,
    one_entry,
    no_gradient,
    missing_none,
    wrong_shape,
    summed,
    in_place,
    in_place_unseen,
    ignores_grad,
]


def inputs(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    x, w = (torch.rand(2, 3, generator=generator, dtype=dtype) + 0.5 for _ in range(2))
    return x.requires_grad_(), w.requires_grad_()


@pytest.mark.parametrize("backward", FAULTS)
def test_planted_faults_are_found(backward):
    function = made(backward)
    x, w = inputs()
    state = torch.get_rng_state()
    y = function.apply(x, w, 3.0)  # torch 2.7 frees the node along with it
    found = check(y.grad_fn)
    assert not found.agrees
    assert "Made.backward is wrong" in found.sentence
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad is None
    assert torch.get_default_dtype() == torch.float32
    if backward not in (in_place, in_place_unseen):  # gradcheck calls it once for each
        with pytest.raises((RuntimeError, AssertionError)):
            torch.autograd.gradcheck(lambda a, b: function.apply(a, b, 3.0), inputs(torch.float64))


def test_the_entry_that_is_wrong_is_told():
    x, w = inputs()
    found = check(made(one_entry).apply(x, w, 3.0))
    (entry,) = found.wrong
    assert (entry.output, entry.input, entry.argument) == (0, 0, "x")
    assert entry.index == entry.output_index == (1, 2)
    true = (2 * x * w * w * 3)[1, 2].item()
    assert entry.difference == pytest.approx(true, rel=1e-5)
    assert entry.gradient == pytest.approx(1.01 * true, rel=1e-5)
    assert "x[1, 2]" in found.sentence
    signs = check(made(wrong_sign).apply(x, w, 3.0))
    assert {entry.argument for entry in signs.wrong} == {"w"}
    assert len(signs.wrong) == 6
    for entry in signs.wrong:
        assert entry.gradient == pytest.approx(-entry.difference, rel=1e-5)
    raised = check(made(missing_none).apply(x, w, 3.0)).sentence
    assert "incorrect number of gradients" in raised
    assert "in place" in check(made(in_place).apply(x, w, 3.0)).sentence
    assert "in place" in check(made(in_place_unseen).apply(x, w, 3.0)).sentence


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_right_one_agrees(dtype):
    x, w = inputs(dtype)
    for y, arguments in (
        (made(right).apply(x, w, 3.0), ()),
        (made(right).apply(x * 2, w.exp(), 3.0), ()),  # no leaves
        (made(right).apply(x, w.detach(), 3.0), (x, w, 3.0)),
        (made(once_differentiable(right)).apply(x, w, 3.0), ()),
    ):
        found = check(y)
        assert found.agrees, found
        assert found.wrong == ()
        assert check(y.grad_fn, *arguments) == found
    assert x.grad is None


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(x, shift):
        return x.sin() + shift, x.sum(), x.argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.shift = inputs[1]
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, grad, grad_sum, _):
        (x,) = ctx.saved_tensors
        return grad * x.cos() + 2 * grad_sum, None


def test_the_output_is_told_apart():
    x = torch.rand(3, requires_grad=True)
    found = check(TwoOutputs.apply(x, 1)[0])
    assert {entry.output for entry in found.wrong} == {1}
    assert found.wrong[0].output_index == ()
    assert found.wrong[0].gradient == pytest.approx(2)
    assert found.wrong[0].difference == pytest.approx(1)


class Kink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > 0)


def test_a_kink_is_no_fault():
    assert check(Kink.apply(torch.tensor([0.0, 1.0, -1.0], requires_grad=True))).agrees


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        keep = torch.rand_like(x) > 0.5
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return grad * keep


def test_random_numbers_are_the_same_each_time():
    x = torch.rand(20, requires_grad=True)
    assert check(Masked.apply(x)).agrees  # a leaf is known although it was not saved
    y = Masked.apply(x * 2)
    with pytest.raises(ValueError, match="x is not known"):
        check(y)
    assert check(y, x * 2).agrees


class Clipped(torch.autograd.Function):
    """Saves an argument without grad, or something it made instead of it."""

    saves_mask = False

    @staticmethod
    def forward(ctx, x, limit):
        mask = x.abs() < limit
        ctx.save_for_backward(x, mask if Clipped.saves_mask else limit)
        return x.clamp(-limit.abs(), limit.abs())

    @staticmethod
    def backward(ctx, grad):
        x, other = ctx.saved_tensors
        return grad * (other if Clipped.saves_mask else x.abs() < other), None


def test_what_is_guessed_is_true_of_the_output():
    x, limit = torch.randn(5, requires_grad=True), torch.full((5,), 0.7)
    Clipped.saves_mask = False
    y = Clipped.apply(x, limit)
    assert check(y).agrees
    with pytest.raises(ValueError, match="limit is not known"):
        check(y.grad_fn)  # nothing says what it gave
    Clipped.saves_mask = True
    y = Clipped.apply(x, limit)
    with pytest.raises(ValueError, match="limit is not known"):
        check(y)
    assert check(y.grad_fn, x, limit).agrees


def test_one_click_in_the_panel():
    x, w = inputs()
    y = made(wrong_sign).apply(x, w, 3.0)
    widget = GraphWidget(y.sum())
    node = next(n["id"] for n in widget.graph["nodes"] if n["op"] == "MadeBackward")
    widget.selected = node
    assert "def wrong_sign" in widget.details["function"]["code"]
    widget._answer({"kind": "check", "node": node})
    assert widget._checked == {
        "node": node,
        "agrees": False,
        "sentence": check(y).sentence,
    }
    other = next(n["id"] for n in widget.graph["nodes"] if n["op"] == "SumBackward0")
    widget._answer({"kind": "check", "node": other})
    assert "no node of a custom" in widget._checked["sentence"]
    assert x.grad is None
    widget.close()
    assert widget._checked is None


class Counts(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counts.calls += 1
        return x * Counts.calls

    @staticmethod
    def backward(ctx, grad):
        return grad


class Single(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.float() * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_what_cannot_be_checked_is_a_sentence():
    x = torch.rand(3, requires_grad=True)
    for given in (x, x.sin(), x.sin().grad_fn, 3, checkpoint(torch.sin, x, use_reentrant=True)):
        with pytest.raises(TypeError, match="no node of a custom"):
            check(given)
    with pytest.raises(ValueError, match="two different outputs"):
        check(Counts.apply(x))
    with pytest.raises(ValueError, match="float32"):
        check(Single.apply(x))
    y = made(right).apply(x, x * 1, 3.0)
    y.sum().backward()
    with pytest.raises(ValueError, match="Freed by the last backward"):
        check(y)
    assert check(y, x, x, 3.0).agrees
    with pytest.raises(ValueError, match="called with 3"):
        check(y, x)
    packed = checkpoint(lambda a: made(right).apply(a, a, 2.0), x * 1, use_reentrant=False)
    if SAVED_IS_TOLD:
        with pytest.raises(ValueError, match="left packed"):
            check(packed)
    else:  # it is unpacked by reading it
        assert check(packed).agrees
    raised = []
    x.register_hook(raised.append)
    check(made(right).apply(x, x, 3.0))
    assert raised == []


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
def test_of_large_inputs_some_numbers_are_tried(size):
    calls = []

    def forward(x, w, scale):
        calls.append(1)
        return (x * w) ** 2 * scale

    x, w = (torch.rand(size, requires_grad=True) for _ in range(2))
    found = check(made(right, forward).apply(x, w, 1.0))
    assert found.agrees
    tried = 2 * min(size, MOST_ENTRIES)
    assert f"{tried:,} gradients" in found.sentence
    assert (f"of {2 * size:,}" in found.sentence) == (tried < 2 * size)
    assert len(calls) == 3 + 2 * tried


class Tiny(torch.autograd.Function):
    """A derivative of 1e-6 that is 1 % off."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 1e-6

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@pytest.mark.parametrize(("factor", "agrees"), [(1e-6, True), (1.01e-6, False)])
def test_a_wrong_derivative_is_found_however_small_it_is(factor, agrees):
    x = torch.tensor([0.5, -2.0], requires_grad=True)
    assert check(Tiny.apply(x, factor).grad_fn, x, factor).agrees is agrees


def elementwise(called, derivative):
    """A Function of one tensor, with the derivative in terms of its input."""

    class Elementwise(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return called(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * derivative(x)

    return Elementwise


@pytest.mark.parametrize("off", [1, -1])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("called", "derivative", "odd"),
    [
        (torch.sqrt, lambda x: 0.5 / x.sqrt(), 0.0),
        (torch.sqrt, lambda x: 0.5 / x.sqrt(), -1.0),
        (torch.log, lambda x: 1 / x, 0.0),
        (torch.log, lambda x: 1 / x, -2.0),
        (torch.log, lambda x: 1 / x, 1e-9),
        (torch.square, lambda x: 2 * x, math.inf),
        (torch.square, lambda x: 2 * x, math.nan),
    ],
)
def test_where_there_is_no_difference_nothing_is_said_and_the_rest_is_checked(
    called, derivative, odd, place, off
):
    numbers = [1.0, 2.0, 3.0]
    numbers[place] = odd
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    y = elementwise(called, lambda x: off * derivative(x)).apply(x)
    found = check(y.grad_fn)
    assert found.agrees == (off == 1)
    assert all(math.isfinite(each.difference) for each in found.wrong)
    if off == -1:
        assert {each.index[0] for each in found.wrong} >= {0, 1, 2} - {place}


def test_a_derivative_that_is_nan_where_the_difference_is_not_is_wrong():
    cut = elementwise(lambda x: x.clamp(min=0) ** 2, lambda x: 2 * x.clamp(min=0) * x / x)
    y = cut.apply(torch.tensor([0.0, 1.0], requires_grad=True))
    found = check(y.grad_fn)
    assert not found.agrees
    assert [each.index for each in found.wrong] == [(0,)]


def test_without_any_difference_that_is_a_sentence():
    x = torch.tensor([math.nan], requires_grad=True)
    with pytest.raises(ValueError, match="every finite difference is NaN or infinite"):
        check(elementwise(torch.square, lambda x: 2 * x).apply(x))


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (torch.eye(3).to_sparse(), "sparse_coo"),
        (torch.eye(3).to_sparse_csr(), "sparse_csr"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested"),
        (torch.ones(3, device="meta"), "meta"),
    ],
)
def test_tensors_without_plain_numbers_are_refused_by_a_sentence(x, word):
    doubled = elementwise(lambda x: x * 2, lambda x: 2)
    with pytest.raises(ValueError, match=f"cannot be checked: it takes a .*{word}"):
        check(doubled.apply(x.detach().requires_grad_()))


def test_a_sparse_gradient_is_compared_like_another():
    doubled = elementwise(lambda x: x * 2, lambda x: torch.full_like(x, 2))
    backward = doubled.backward
    doubled.backward = staticmethod(lambda ctx, grad: backward(ctx, grad).to_sparse())
    assert check(doubled.apply(torch.ones(3, requires_grad=True))).agrees


@pytest.mark.parametrize("said", [math.inf, -math.inf, math.nan])
def test_no_derivative_that_is_finite_is_infinite(said):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.full_like(grad, said)

    found = check(Doubled.apply(torch.tensor([1.0, 2.0], requires_grad=True)))
    assert not found.agrees
    assert not math.isfinite(found.wrong[0].gradient)


def test_of_a_derivative_that_is_infinite_no_finite_difference_tells():
    class CubeRoot(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign() * x.abs().pow(1 / 3)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / (3 * x.abs().pow(2 / 3))

    found = check(CubeRoot.apply(torch.tensor([0.0, 1.0, -8.0], requires_grad=True)))
    assert found.agrees, found
    assert "of 1 more there is none that is finite" in str(found)


def of_complex(forward, backward):
    """A Function of one or two tensors, with what its backward gives for what it is called with."""

    class OfComplex(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            ctx.save_for_backward(*given)
            return forward(*given)

        @staticmethod
        def backward(ctx, grad):
            return backward(grad, *ctx.saved_tensors)

    return OfComplex


def as_complex(real):
    return torch.complex(real[..., 0], real[..., 1])


def as_real(grad):
    return torch.stack([grad.real, grad.imag], -1)


COMPLEX = {
    # what forward does, what backward should, what it might do instead
    "a product": (
        torch.mul,
        lambda grad, z, w: (grad * w.conj(), grad * z.conj()),
        [
            lambda grad, z, w: (grad * w, grad * z.conj()),  # without conj
            lambda grad, z, w: (grad * w.conj(), -grad * z.conj()),
            lambda grad, z, w: (grad * w.conj(), (grad * z.conj()).real),
            lambda grad, z, w: (grad * w.conj(), None),
        ],
    ),
    "a conjugate": (
        lambda z: z.conj() * 2,
        lambda grad, z: grad.conj() * 2,
        [lambda grad, z: grad * 2, lambda grad, z: grad.conj()],
    ),
    "an absolute value": (
        torch.abs,
        lambda grad, z: grad * z / z.abs(),
        [lambda grad, z: grad * z.conj() / z.abs(), lambda grad, z: grad.to(z)],
    ),
    "a square of the absolute value": (
        lambda z: (z * z.conj()).real,
        lambda grad, z: 2 * grad * z,
        [lambda grad, z: grad * z],  # as a holomorphic function would have it
    ),
    "an exponential": (
        torch.exp,
        lambda grad, z: grad * z.exp().conj(),
        [lambda grad, z: grad * z.exp()],
    ),
    "complex of real": (
        lambda x: torch.polar(x, 3 * x),
        lambda grad, x: (grad * (torch.polar(1 + 0 * x, 3 * x) * (1 + 3j * x)).conj()).real,
        [
            lambda grad, x: (grad * (torch.polar(1 + 0 * x, 3 * x) * (1 + 3j * x))).real,
            lambda grad, x: grad.real,
        ],
    ),
    "real and complex": (
        torch.mul,
        lambda grad, z, x: (grad * x, (grad * z.conj()).real),
        [lambda grad, z, x: (grad * x, (grad * z).real)],
    ),
}


def given_to(name):
    torch.manual_seed(0)
    z, w = (torch.randn(2, 3, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    x = (torch.rand(2, 3, dtype=torch.float64) + 0.5).requires_grad_()
    if name == "complex of real":
        return (x,)
    return {"a product": (z, w), "real and complex": (z, x)}.get(name, (z,))


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("is_narrow", [False, True])
def test_complex_backwards_are_right_where_gradcheck_has_it(name, is_narrow):
    forward, backward, others = COMPLEX[name]
    for number, each in enumerate([backward, *others]):
        function, given = of_complex(forward, each), given_to(name)
        is_right = torch.autograd.gradcheck(function.apply, given, raise_exception=False)
        assert is_right is (number == 0), (name, number)
        if is_narrow:
            like = {torch.complex128: torch.complex64, torch.float64: torch.float32}
            given = [t.detach().to(like[t.dtype]).requires_grad_() for t in given]
        found = check(function.apply(*given))
        assert found.agrees is is_right, (name, number, str(found))
        assert all(t.grad is None for t in given)


def test_a_wrong_complex_entry_is_told_by_its_parts():
    function = of_complex(lambda z: z * 2j, lambda grad, z: grad * 2j)  # without conj
    z = torch.tensor([1 + 1j, 2 - 1j], requires_grad=True)
    found = check(function.apply(z))
    assert len(found.wrong) == 4
    jacobian = torch.autograd.functional.jacobian(
        lambda real: torch.view_as_real(torch.view_as_complex(real) * 2j),
        torch.view_as_real(z.detach()),
    )
    parts = ["real", "imaginary"]
    for wrong in found.wrong:
        at = (*wrong.output_index, parts.index(wrong.output_part))
        at += (*wrong.index, parts.index(wrong.part))
        assert wrong.difference == pytest.approx(float(jacobian[at]), abs=1e-6)
        assert wrong.gradient == pytest.approx(-float(jacobian[at]), abs=1e-6)
    assert "part of output[" in str(found)
    assert " by the " in str(found)


def test_of_complex_numbers_that_are_a_view_or_a_conjugate():
    forward, backward, _ = COMPLEX["a product"]
    z = torch.randn(3, 4, dtype=torch.complex64, requires_grad=True)
    found = check(of_complex(forward, backward).apply(z.T.conj(), (z * 1).T))
    assert found.agrees, str(found)
    assert "48 gradients" in str(found)  # both parts of each number


@pytest.mark.parametrize("seed", range(5))
def test_inputs_drawn_from_a_common_seed_hide_nothing(seed):
    def backward(grad, z, w):
        return grad * w.conj(), (grad * z.conj()).real  # the imaginary part is missing

    torch.manual_seed(seed)
    z, w = (torch.randn(2, 3, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    found = check(of_complex(torch.mul, backward).apply(z, w))
    assert len(found.wrong) == 6, str(found)
