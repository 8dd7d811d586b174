"""Inside of torch.func: the right graph, levels and batches named, true numbers, no harm done."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, hessian, jacrev, vmap

from gradwalk import GraphWidget, capture, watch

# torch's own, when it first takes a derivative forward
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")


def function(x):
    return (x.sin() * x).sum()


def graph_of(y):
    return [(data["op"], data["shape"]) for _, data in capture(y).nodes(data=True)]


TRANSFORMS = {
    "grad": (grad, (3,), ["grad"]),
    "vmap of grad": (lambda f: vmap(grad(f)), (2, 3), ["vmap over 2", "grad"]),
    "vmap along another dimension": (
        lambda f: vmap(grad(f), in_dims=1),
        (3, 2),
        ["vmap over 2", "grad"],
    ),
    "jacrev": (jacrev, (3,), ["grad"]),
    "hessian": (hessian, (3,), ["vmap over 3", "jvp", "grad"]),
    "grad of grad": (
        lambda f: grad(lambda x: grad(f)(x).sum()),
        (3,),
        ["grad", "grad"],
    ),
    "vmap of vmap of grad": (
        lambda f: vmap(vmap(grad(f))),
        (4, 2, 3),
        ["vmap over 4", "vmap over 2", "grad"],
    ),
}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_graph_within_is_that_of_the_function_alone(name, watched):
    transform, shape, levels = TRANSFORMS[name]
    x = torch.rand(shape)
    seen, widgets = [], []

    def looked_at(x):
        y = function(x)
        seen.append((graph_of(y), capture(y).graph["transforms"]))
        widgets.append(GraphWidget(y, names={"x": x}))
        return y

    alone = graph_of(function(torch.rand(3, requires_grad=True)))
    state = torch.get_rng_state()
    with watch() if watched else torch.enable_grad():
        found = transform(looked_at)(x)
    assert torch.equal(found, transform(function)(x))
    assert torch.equal(torch.get_rng_state(), state)
    ((graph, transforms),) = seen
    assert transforms == levels
    assert graph == alone
    (widget,) = widgets
    box = "/".join(f"torch.func.{level}" for level in levels)
    for node in widget.model["nodes"]:
        assert node["kind"] != "op" or node["namespace"] == box
    for node in range(len(widget.model["nodes"])):  # after the transform has ended
        widget.selected = node
        assert widget.details["failed"] == []
        assert widget.details["about"].startswith("Recorded within torch.func: ")
    leaf = next(n["id"] for n in widget.model["nodes"] if n["kind"] == "leaf")
    widget.selected = leaf
    value = widget.details["value"]
    true = x.movedim(1, 0) if name == "vmap along another dimension" else x
    assert sorted(flat(value["values"])) == pytest.approx(sorted(true.flatten().tolist()))
    assert ("vmap over" in (value["note"] or "")) == (x.dim() > 1)
    widget.to_dot(), str(widget)
    widget.close()


def flat(values):
    return [n for each in values for n in flat(each)] if isinstance(values, list) else [values]


@pytest.mark.parametrize("name", ["grad", "vmap of grad", "jacrev", "hessian"])
def test_the_gradients_of_the_transform_are_seen(name, tmp_path):
    transform, shape, _ = TRANSFORMS[name]
    x = torch.rand(shape)
    widgets = []

    def looked_at(x):
        y = function(x)
        widgets.append(GraphWidget(y, names={"x": x}))
        return y

    transform(looked_at)(x)
    (widget,) = widgets
    widget.selected = next(n["id"] for n in widget.model["nodes"] if n["op"] == "MulBackward0")
    came = widget.details["grad_output"][0]
    assert 1.0 in flat(came["values"])  # of a sum
    assert set(flat(came["values"])) <= {0.0, 1.0}
    assert came["shape"][-1] == 3
    widget.to_html(tmp_path / "graph.html")
    widget.close()


def test_a_graph_from_outside_is_in_no_transform():
    w = torch.rand(3, requires_grad=True)
    outer = w.exp()
    found = []

    def inner(x):
        found.append(capture(outer))
        return function(x)

    grad(inner)(torch.rand(3))
    assert "transforms" not in found[0].graph
    assert "transforms" not in capture(outer).graph


def test_what_vmap_hides_is_said_to_be_behind_what_it_returns():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    refusals = []

    def f(x):
        loss = (x * w).sum()
        with pytest.raises(ValueError, match=r"inside torch\.func \(vmap over 3\)") as refused:
            capture(loss)
        refusals.append(str(refused.value))
        return loss

    given = torch.func.vmap(f)(torch.ones(3, 2))
    assert "none of the tensors" not in refusals[0]
    assert "w" in {name for _, name in capture(given, names={"w": w}).nodes(data="name")}

    def plain(x):
        with pytest.raises(ValueError, match="if it requires grad"):
            capture(x.sum())
        return x

    torch.func.vmap(plain)(torch.ones(3, 2))


def test_a_parameter_that_was_cut_outside_of_the_transform_is_drawn():
    weight = torch.nn.Parameter(torch.ones(3))
    drawn = []

    def function(x):
        with watch():
            with torch.no_grad():
                y = weight * 2
            out = (x * y).sum()
        drawn.extend(node["op"] for node in GraphWidget(out).model["nodes"])
        return out

    assert torch.equal(torch.func.grad(function)(torch.ones(3)), torch.full((3,), 2.0))
    assert "MulBackward0" in drawn
