"""`check` of Functions of complex numbers, as torch's gradcheck has it."""

from __future__ import annotations

import pytest
import torch
from own_functions import with_backward

from gradwalk import check

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
        function, given = with_backward(forward, each), given_to(name)
        is_right = torch.autograd.gradcheck(function.apply, given, raise_exception=False)
        assert is_right is (number == 0), (name, number)
        if is_narrow:
            like = {torch.complex128: torch.complex64, torch.float64: torch.float32}
            given = [t.detach().to(like[t.dtype]).requires_grad_() for t in given]
        found = check(function.apply(*given))
        assert found.agrees is is_right, (name, number, str(found))
        assert all(t.grad is None for t in given)


def test_a_wrong_complex_entry_is_told_by_its_parts():
    function = with_backward(lambda z: z * 2j, lambda grad, z: grad * 2j)  # without conj
    z = torch.tensor([1 + 1j, 2 - 1j], requires_grad=True)
    found = check(function.apply(z))
    assert len(found.wrong) == 4
    jacobian = torch.autograd.functional.jacobian(
        lambda real: torch.view_as_real(torch.view_as_complex(real) * 2j),
        torch.view_as_real(z.detach()),
    )
    parts = ["real", "imaginary"]
    for wrong in found.wrong:
        at = (*wrong.output.index, parts.index(wrong.output.part))
        at += (*wrong.by.index, parts.index(wrong.by.part))
        assert wrong.difference == pytest.approx(float(jacobian[at]), abs=1e-6)
        assert wrong.gradient == pytest.approx(-float(jacobian[at]), abs=1e-6)
    assert "part of output[" in str(found)
    assert " by the " in str(found)


def test_of_complex_numbers_that_are_a_view_or_a_conjugate():
    forward, backward, _ = COMPLEX["a product"]
    z = torch.randn(3, 4, dtype=torch.complex64, requires_grad=True)
    found = check(with_backward(forward, backward).apply(z.T.conj(), (z * 1).T))
    assert found.agrees, str(found)
    assert "48 numbers" in str(found)  # both parts of each number


@pytest.mark.parametrize("seed", range(5))
def test_inputs_drawn_from_a_common_seed_hide_nothing(seed):
    def backward(grad, z, w):
        return grad * w.conj(), (grad * z.conj()).real  # the imaginary part is missing

    torch.manual_seed(seed)
    z, w = (torch.randn(2, 3, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    found = check(with_backward(torch.mul, backward).apply(z, w))
    assert {each.by.nr for each in found.wrong} == {1}, str(found)
