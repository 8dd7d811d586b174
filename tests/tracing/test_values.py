"""The values of nodes: what the forward pass gave, beside what torch itself gave there."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import torch
from oracle import Outputs
from programs import PROGRAMS
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradwalk import GraphWidget, load, record, save, watch
from gradwalk.export.text import text_tree, values_in
from gradwalk.graph.capture import capture_nodes
from gradwalk.graph.names import Names
from gradwalk.graph.outputs import read_outputs
from gradwalk.graph.outputs import values_in as outputs_in
from gradwalk.torch_api.summary import plain_values

MOST = 16


def values(*outputs: Any, **options: Any) -> dict[int, Any]:
    with closing(GraphWidget(*outputs, **options)) as widget:
        return values_in(widget.model)


def leaf(*numbers: float) -> Tensor:
    return torch.tensor(numbers if len(numbers) > 1 else numbers[0], requires_grad=True)


@contextmanager
def maybe_watched(watched: bool) -> Iterator[None]:
    if watched:
        with watch():
            yield
    else:
        yield


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "watched"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_is_what_torch_gave(name: str, watched: bool) -> None:
    seen = Outputs()
    with maybe_watched(watched), seen:
        outputs = PROGRAMS[name]()
    given = outputs_in(outputs)
    captured = capture_nodes(read_outputs((outputs,), "capture"), Names())
    ids = {node: i for i, node in enumerate(captured.nodes)}
    # The last copy: a call made by another one is seen before it, and gives the same.
    gave = {ids[node]: copy for node, nr, copy in seen.copies if node in ids and nr == 0}
    shown = values(*given)
    for node, value in shown.items():
        if node in gave:
            assert value == plain_values(gave[node]), captured.graph.nodes[node]["op"]
    alone = {ids[node] for node in seen.alone if node in ids}
    for node, data in captured.graph.nodes(data=True):
        shape, is_meta = data["shape"], data["device"] == "meta"
        if shape is None or math.prod(shape) > MOST or is_meta:
            continue
        if data["kind"] == "leaf":
            assert node in shown
        elif watched and node in alone and len(data["outputs"]) == 1:
            is_plain = gave[node].layout is torch.strided and type(gave[node]) is Tensor
            assert node in shown or not is_plain, data["op"]


def neuron() -> Tensor:
    w, b = leaf(-3.0), leaf(1.0)
    return ((w * torch.tensor(2.0) + b) - torch.tensor(1.0)) ** 2


def test_a_scalar_graph_has_all_its_values_when_watched() -> None:
    with watch():
        loss = neuron()
    with closing(GraphWidget(loss)) as widget:
        assert [node["value"] for node in widget.model["nodes"]] == [
            *(36.0, -6.0, -5.0, -6.0, 1.0, -3.0),
            *(1.0, 2.0),  # the constants
        ]
        loss.backward()
        widget.selected = 2
        assert widget.details["value"]["values"] == -5.0
        assert "watch()" in widget.details["value"]["origin"]


def test_leaves_and_outputs_have_theirs_after_backward() -> None:
    loss = neuron()
    loss.backward()
    shown = values(loss)
    assert shown == {0: 36.0, 4: 1.0, 5: -3.0}


def test_variables_and_saved_tensors_have_theirs() -> None:
    w = leaf(-3.0)
    held = w * 2
    loss = (held + 1).tanh().exp()
    shown = values(loss, names={"held": held})
    assert shown[0] == loss.item()  # the output itself
    assert shown[1] == (held + 1).tanh().item()  # saved as the result of tanh
    assert 2 not in shown  # nobody holds the sum
    assert shown[3] == -6.0  # a variable


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.mul_(10),
        lambda y: y.zero_(),
        lambda y: y.detach().add_(1),
        lambda y: y.view(-1)[0].sub_(1),
        lambda y: torch.add(y, 1, out=y),
    ],
)
@pytest.mark.parametrize("is_output", [False, True])
def test_what_was_changed_unseen_is_not_shown(change: Any, is_output: bool) -> None:
    y = leaf(-3.0) * 2
    loss = y if is_output else y.exp() + 1
    with torch.no_grad():
        change(y)
    with closing(GraphWidget(loss, names={"y": y})) as widget:
        node = next(n for n in widget.model["nodes"] if n["op"] == "MulBackward0")
        assert node["value"] is None
        widget.selected = node["id"]
        assert widget.details["value"] is None
        assert "in place" in widget.details["value_note"]


def test_a_leaf_that_was_changed_since_is_not_drawn_as_what_went_in() -> None:
    w = leaf(2.0, 3.0)
    loss = (w**2).sum()
    with torch.no_grad():
        w += 1
    assert 2 not in values(loss)


def test_what_changes_while_it_is_shown_is_told_in_the_panel() -> None:
    w = leaf(-3.0)
    loss = w * 2
    with closing(GraphWidget(loss, names={"w": w})) as widget:
        with torch.no_grad():
            w.sub_(1)
            loss.sub_(1)
        widget.selected = 1
        assert widget.details["value"]["values"] == -3.0 == widget.model["nodes"][1]["value"]
        assert "changed in place since. Now it holds -4" in widget.details["value_note"]
        widget.selected = 0
        assert widget.details["value"]["values"] == -6.0
        assert widget.model["nodes"][0]["value"] == -6.0


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "saved": lambda w: (w**2).sum(),
    "saved as a view": lambda w: (w.unsqueeze(0).t() ** 2).sum(),
    "not saved": lambda w: (w + 1).sum(),
    "through an operation that saves nothing": lambda w: (w + 1).exp().sum(),
}
CHANGES: dict[str, Callable[[Tensor], object]] = {
    "an optimizer": lambda w: torch.optim.SGD([w], 0.1).step(),
    "in place": lambda w: w.sub_(1),
    "by way of .data": lambda w: w.data.sub_(1),
    "through a detached alias": lambda w: w.detach().mul_(2),
}


def leaf_of(widget: GraphWidget) -> Any:
    return next(node for node in widget.model["nodes"] if node["kind"] == "leaf")


@pytest.mark.parametrize("is_run", [False, True], ids=["no backward", "backward"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("use", USES)
def test_a_changed_leaf_has_the_value_that_went_in_when_watched(
    use: str, change: str, is_run: bool
) -> None:
    w = leaf(2.0, 3.0)
    went_in = w.tolist()
    with watch():
        loss = USES[use](w)
    if is_run:
        loss.backward()
    else:
        w.grad = torch.ones(2)
    with torch.no_grad():
        CHANGES[change](w)
    with closing(GraphWidget(loss)) as widget:
        drawn = leaf_of(widget)
        assert (drawn["value"], drawn["changed"]) == (went_in, False)
        widget.selected = drawn["id"]
        assert widget.details["value"]["values"] == went_in
        assert "copied by watch()" in widget.details["value"]["origin"].lower()
        assert "changed in place since" in widget.details["value_note"]


@pytest.mark.parametrize("change", [name for name in CHANGES if ".data" not in name])
@pytest.mark.parametrize("is_run", [False, True], ids=["no backward", "backward"])
@pytest.mark.parametrize("use", USES)
def test_no_changed_leaf_is_said_to_hold_what_went_in(use: str, change: str, is_run: bool) -> None:
    w = leaf(2.0, 3.0)
    went_in = w.tolist()
    loss = USES[use](w)
    loss.backward(retain_graph=not is_run)
    with torch.no_grad():
        CHANGES[change](w)
    assert w.tolist() != went_in
    with closing(GraphWidget(loss)) as widget:
        drawn = leaf_of(widget)
        assert drawn["changed"] is not False
        assert drawn["value"] == (w.tolist() if drawn["changed"] is None else None)
        # A tensor that is saved and not freed shows the change.
        assert not (use.startswith("saved") and not is_run) or drawn["changed"]
        widget.selected = drawn["id"]
        assert "changed in place" in widget.details["value_note"]
        assert (widget.details["value"] is None) == (drawn["changed"] is True)
        assert drawn["id"] not in values_in(widget.model)


@pytest.mark.parametrize("numbers", [16, 17, 1000])
def test_large_leaves_are_told_to_be_changed_in_the_panel(numbers: int) -> None:
    w = torch.ones(numbers, requires_grad=True)
    unchanged = torch.ones(numbers, requires_grad=True)
    loss = (w.exp() * w * unchanged).sum()
    with closing(GraphWidget(loss, names={"w": w, "unchanged": unchanged})) as widget:
        ids = {node["name"]: node["id"] for node in widget.model["nodes"]}
        for is_changed in (False, True):
            if is_changed:
                with torch.no_grad():
                    w.add_(1)
            for name in ("w", "unchanged"):
                widget.selected = None
                widget.selected = ids[name]
                told = widget.details["value_note"] or ""
                assert ("changed in place" in told) == (is_changed and name == "w")


@pytest.mark.parametrize(
    ("numbers", "are_different"),
    [
        ((2.0, 7.0), True),
        ((2.0, 7.0, 2.0), True),
        ((0.0, -0.0), True),
        ((1.0, math.nan), True),
        ((3.0, 3.0, 3.0), False),
        ((math.nan, math.nan), False),
    ],
)
def test_operations_that_took_different_numbers_of_a_leaf(
    numbers: tuple[float, ...], are_different: bool
) -> None:
    w = leaf(numbers[0])
    with watch():
        total = torch.zeros(())
        for number in numbers:
            w.data.fill_(number)
            total = total + w
    with closing(GraphWidget(total)) as widget:
        drawn = leaf_of(widget)
        assert (drawn["value"] is None, drawn["changed"]) == (are_different, are_different)
        widget.selected = drawn["id"]
        assert ("different values" in (widget.details["value_note"] or "")) == are_different


def test_parameters_that_were_only_made_in_place_have_their_values() -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)  # whose initial numbers are drawn in place
    loss = model(torch.ones(1, 2)).sum()
    shown = values(loss, names={"model": model})
    assert [v for v in shown.values() if v == model.weight.tolist()]
    assert [v for v in shown.values() if v == model.bias.tolist()]


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_sum_that_grew_in_place_is_its_own_value(times: int) -> None:
    w = leaf(2.0)
    total = torch.zeros(())
    for i in range(times):
        total += w * i
    assert values(total)[0] == total.item()


def test_in_place_operations_have_their_own_values_when_watched() -> None:
    w = leaf(2.0)
    with watch():
        y = w * 3
        y += 1
        y *= 2
        y.exp_()
    assert [values(y)[i] for i in range(4)] == [y.item(), 14.0, 7.0, 6.0]


def test_writing_into_a_view_shows_no_number_that_was_never_there() -> None:
    w = leaf(1.0, 2.0)
    with watch():
        y = w * 3
        y[0] = 100.0
        z = y.sum()
    shown = values(z)
    assert shown[0] == 106.0
    assert [100.0, 3.0] not in [each for node, each in shown.items() if node]
    assert all(
        each in (106.0, [100.0, 6.0], [3.0, 6.0], [1.0, 2.0], 3, 100.0) for each in shown.values()
    )


def test_a_tensor_of_17_numbers_has_no_value_in_the_picture() -> None:
    for count in (16, 17):
        w = torch.ones(count, requires_grad=True)
        with watch():
            y = w * 2
        assert (0 in values(y)) == (count == 16) == (1 in values(y))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4e38])
def test_numbers_without_json(number: float) -> None:
    x = leaf(number)
    with watch():
        y = x * 1
    with closing(GraphWidget(y)) as widget:
        assert widget.model["nodes"][0]["value"] == plain_values(y)
        del y
        widget.selected = 0
        assert widget.details["value"]["values"] == widget.model["nodes"][0]["value"]
        assert widget.details["value"]["note"] is None


def test_complex_numbers() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    with watch():
        y = (x * 2j).sum()
    with closing(GraphWidget(y)) as widget:
        widget.selected = 1
        assert widget.details["value"]["values"] == widget.model["nodes"][1]["value"]


def test_half_precision_is_read_exactly() -> None:
    x = torch.tensor(0.1, dtype=torch.bfloat16, requires_grad=True)
    with watch():
        y = x * 3
    shown = values(y)
    assert shown[0] == float(y.detach())


def test_freed_memory_is_not_read() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.untyped_storage().resize_(0)
    assert 0 not in values(y)


def test_values_keep_nothing_alive() -> None:
    gc.collect()
    with watch():
        y = leaf(1.0) * 2
        z = y + 1
    widget = GraphWidget(z)
    known = weakref.ref(y)
    del y
    assert known() is None
    widget.close()


def test_a_recomputed_forward_gives_the_values_of_the_first() -> None:
    w = leaf(0.5)
    with watch():
        y = checkpoint(lambda t: (t * 2).sin(), w, use_reentrant=False) * 3
    shown = values(y)
    y.backward()
    assert shown[0] == y.item()


def test_modules_and_functional_calls() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.ones(1, 2)
    with watch():
        y = model(x)
        loss = nn.functional.mse_loss(y, torch.zeros(1, 1))
    shown = values(loss, names={"model": model})
    assert shown[0] == loss.item()
    assert plain_values(y) in shown.values()
    assert plain_values(torch.tanh(model[0](x))) in shown.values()


def test_files_and_texts_have_them(tmp_path: Any) -> None:
    with watch():
        loss = neuron()
    with closing(GraphWidget(loss)) as widget:
        assert "= 36" in text_tree(widget.to_networkx(), model=widget.model)
        assert "= -5" in widget._repr_mimebundle_()[0]["text/plain"]
        html = widget.to_html()
        assert "= -5" in html
    save(loss, path=tmp_path / "run.gw")
    with closing(load(tmp_path / "run.gw")) as again:
        assert values_in(again.model)[2] == -5.0
        again.selected = 2
        assert again.details["value"]["values"] == -5.0


def test_a_recording_has_them() -> None:
    with watch():
        loss = neuron()
    recording = record(loss)
    with closing(GraphWidget(recording)) as widget:
        assert widget.model["nodes"][2]["value"] == -5.0


def test_long_chains() -> None:
    x = leaf(1.0)
    y: Tensor = x
    for _ in range(5_000):
        y = y + 1
    shown = values(y)
    assert shown[0] == 5_001.0
    make: Callable[[], Tensor] = lambda: x.expand(5_000).sum()  # noqa: E731
    assert values(make())[0] == 5_000.0


def test_a_tensor_outside_the_graph_has_its_value_unless_it_changed_before_the_cut():
    def outside(widget: GraphWidget) -> object:
        (node,) = [each for each in widget.model["nodes"] if each["kind"] == "outside"]
        return node["value"]

    w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(0.5)
    for before, factor, after, value in (
        (1, 1, 2, 1.0),
        (2, 1, 1, None),
        (1, 3, 1, None),  # then the operand is not what detach() gave
    ):
        with watch():
            features = w * x
            with torch.no_grad():
                features.mul_(before)
            taken = features.detach()
            loss = w * (taken if factor == 1 else taken * factor)
        with torch.no_grad():
            features.mul_(after)
        widget = GraphWidget(loss)
        assert outside(widget) == value
        widget.close()
