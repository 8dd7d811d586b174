"""The places in the signs of indexing are those that torch read."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import torch

from gradwalk import GraphWidget, watch
from gradwalk.graph.index_signs import INTO, index_sign
from gradwalk.torch_api.nodes import op_name


def sign_of(tensor: torch.Tensor) -> str | None:
    assert tensor.grad_fn is not None
    return index_sign(op_name(tensor.grad_fn), tensor.grad_fn)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(120.0).reshape(4, 5, 6).requires_grad_()


@pytest.mark.parametrize(
    ("program", "sign"),
    [
        (lambda x: x[1], "[1]"),
        (lambda x: x[-1], "[-1]"),
        (lambda x: x[:, 2], "[:, 2]"),
        (lambda x: x[..., 0], "[..., 0]"),
        (lambda x: x.select(-1, -2), "[..., -2]"),
        (lambda x: x.select(-2, 1), "[:, 1]"),
        (lambda x: x[1:3], "[1:3]"),
        (lambda x: x[:, :-1], "[:, :-1]"),
        (lambda x: x[::2], "[::2]"),
        (lambda x: x[-2:], "[-2:]"),
        (lambda x: x.narrow(1, 1, 2), "[:, 1:3]"),
        (lambda x: x[torch.tensor([0, 2])], "[index]"),
        (lambda x: x[x > 3], "[index]"),
        (lambda x: x[None], None),
        (lambda x: x.unbind()[1], None),
        (lambda x: x.chunk(2)[1], None),
        (lambda x: x.index_select(0, torch.tensor([1])), None),
        (lambda x: x.expand(1, 4, 5, 6)[:, :, 1000:2000], None),  # too long for a card
        (lambda x: x.index_put((torch.tensor([0]),), torch.zeros(5, 6)), "[index] ="),
        (
            lambda x: x.index_put((torch.tensor([0]),), torch.zeros(5, 6), accumulate=True),
            "[index] +=",
        ),
    ],
)
def test_a_sign_has_the_index_that_is_known(
    x: torch.Tensor, program: Callable[[torch.Tensor], torch.Tensor], sign: str | None
) -> None:
    assert sign_of(program(x)) == sign


def _part(chance: random.Random) -> Any:
    if chance.random() < 0.4:
        return chance.randrange(-3, 3)
    ends = [None, *range(-5, 6), 100]
    return slice(chance.choice(ends), chance.choice(ends), chance.choice([None, 1, 2, 3]))


def _indexed(x: torch.Tensor, chance: random.Random) -> torch.Tensor:
    """Read places of a tensor in one operation or several."""
    dim = chance.randrange(-x.dim(), x.dim())
    size = x.shape[dim]
    kind = chance.randrange(5)
    if kind == 0:
        return x.select(dim, chance.randrange(-size, size))
    if kind == 1:
        start = chance.randrange(size)
        return x.narrow(dim, start, chance.randrange(1, size - start + 1))
    if kind == 2:
        return chance.choice(x.tensor_split(2, dim))
    parts = tuple(_part(chance) for _ in range(chance.randrange(1, x.dim() + 1)))
    return x[(..., *parts) if kind == 3 else parts]


@pytest.mark.parametrize("seed", range(30))
def test_the_index_in_a_sign_gives_what_torch_gave(seed: int) -> None:
    chance = random.Random(seed)
    said = 0
    for _ in range(40):
        sizes = [chance.randrange(3, 7) for _ in range(chance.randrange(1, 5))]
        x = torch.randn(sizes, requires_grad=True)
        found = _indexed(x, chance)
        signs = []
        node = found.grad_fn
        while node is not None and not hasattr(node, "variable"):
            signs.append(index_sign(op_name(node), node))
            node = node.next_functions[0][0]
        if None not in signs:
            y = eval("x" + "".join(map(str, reversed(signs))))
            assert torch.equal(y, found), signs
            said += len(signs)
    assert said > 20


@pytest.mark.parametrize("seed", range(10))
def test_into_says_where_a_gradient_was_written(seed: int) -> None:
    chance = random.Random(seed)
    said = 0
    for _ in range(20):
        sizes = [chance.randrange(3, 7) for _ in range(chance.randrange(1, 4))]
        x = torch.randn(sizes, requires_grad=True)
        read = x.select(chance.randrange(-x.dim(), x.dim()), -1)
        read = read if chance.random() < 0.5 else x[_part(chance)]
        if read is x or not read.numel():
            continue
        (gradient,) = torch.autograd.grad((read**2).sum(), x, create_graph=True)
        sign = sign_of(gradient)
        if sign is None:  # an empty or full slice
            continue
        expected = torch.zeros(sizes)
        exec(f"expected{sign.removeprefix(INTO)} = 2 * read.detach()")
        assert sign.startswith(INTO)
        assert torch.equal(expected, gradient), sign
        said += 1
    assert said > 5


def test_signs_stay_when_nodes_have_freed_what_they_saved(x: torch.Tensor) -> None:
    loss = x[torch.tensor([0, 2])][:, 1:3][..., 0].sum()

    def signs() -> list[str | None]:
        with closing(GraphWidget(loss)) as widget:
            return [node["sign"] for node in widget.model["nodes"] if node["kind"] == "op"]

    before = signs()
    assert before == ["Σ", "[..., 0]", "[:, 1:3]", "[index]"]
    loss.backward()
    assert signs() == before


def test_a_sign_unpacks_nothing(x: torch.Tensor) -> None:
    def refuse(_: Any) -> torch.Tensor:
        raise AssertionError

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, refuse):
        y = x[torch.tensor([0, 2])]
    assert sign_of(y) == "[index]"


def test_the_panel_explains_into(x: torch.Tensor) -> None:
    (gradient,) = torch.autograd.grad(x[1].square().sum(), x, create_graph=True)
    with closing(GraphWidget(gradient)) as widget:
        widget.selected = widget.model["roots"][0]["node"]
        about = widget.details["about"]
    assert about.endswith("select_backward made zeros and wrote its input to [1] of them.")


@pytest.mark.parametrize(
    ("steps", "signs"),  # the last step first
    [
        ("h[0] = 10.0", ["[0] = 10"]),
        ("h[-1] = 2; h[1:] = -0.5", ["[1:] = −0.5", "[-1] = 2"]),
        ("h[0] = x[1]; h[..., ::2] = 3", ["[..., ::2] = 3", "[0] ="]),
        ("h[i] = 4.0", ["[index] ="]),
        ("h[1] = torch.tensor(3.0)", ["[1] = 3"]),
        ("v = h[1:]; v[0] = 5.0", ["[ ] = 5"]),  # a place of the view
        ("h[1] *= 3", ["[1] =", "[ ] ="]),
        ("h[0].add_(2)", ["[ ] ="]),
        ("h[None, None, 0, None] = 1.0", ["[ ] = 1"]),  # too long for a card
    ],
)
def test_an_assignment_has_its_place_and_number_if_watched(steps: str, signs: list[str]) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with watch():
        h = x * 2
        exec(steps, {"h": h, "x": x, "i": torch.tensor([0, 1]), "torch": torch})
        loss = h.sum()
    with closing(GraphWidget(loss)) as widget:
        found = [node["sign"] or "" for node in widget.model["nodes"] if node["kind"] == "op"]
        assert [sign for sign in found if "=" in sign] == signs
