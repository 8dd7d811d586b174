"""Writing live pages: what they hold, and what is refused."""

from __future__ import annotations

import json
import re
import weakref
from typing import Any

import pytest
import torch

from gradwalk import GraphWidget, interact, watch


def program_in(text: str) -> dict[str, Any]:
    found = re.search(r'id="gradwalk-program">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


def test_a_watched_loss_has_a_live_page(tmp_path):
    w, x = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    with watch():
        loss = (w * x).sum() ** 2
    path = GraphWidget(loss).to_html(tmp_path / "figure.html", live=True)
    program = program_in(path.read_text())
    assert [(one["name"], one["leaf"]) for one in program["inputs"]] == [("w", True), ("x", False)]
    assert path.stat().st_size < 700_000
    assert w.grad is None


def test_a_function_has_a_live_page():
    box = interact(lambda w, x: (torch.tanh(w * x) - 1) ** 2, w=(-5.0, 5.0), x=2.0)
    program = program_in(box.to_html())
    assert [one["name"] for one in program["inputs"]] == ["w", "x"]
    assert program["inputs"][0]["ranges"] == [[-5.0, 5.0, 0.1]]


def test_branches_and_items_are_guarded():
    w = torch.tensor(1.5, requires_grad=True)
    with watch():
        y = w * 2
        if y > 0:
            y = y * 3
        loss = y * y.item()
    program = program_in(GraphWidget(loss).to_html(live=True))
    assert [one["numbers"] for one in program["guards"]] == [[1.0], [9.0]]
    assert "test_writing_live.py" in program["guards"][0]["line"]


def test_an_unwatched_loss_is_refused():
    w = torch.tensor(1.5, requires_grad=True)
    with pytest.raises(ValueError, match=r"with gradwalk.watch\(\)"):
        GraphWidget(w * 2).to_html(live=True)


def test_a_call_that_no_page_computes_is_refused_with_its_line():
    w = torch.eye(2).requires_grad_()
    with watch():
        loss = torch.linalg.inv(w).sum()
    widget = GraphWidget(loss)
    with pytest.raises(ValueError, match=r"cannot compute aten.*test_writing_live.py:\d+"):
        widget.to_html(live=True)


def test_wrong_options_are_refused():
    w = torch.tensor(1.5, requires_grad=True)
    with watch():
        loss = w * 2
    widget = GraphWidget(loss)
    with pytest.raises(ValueError, match="Give both"):
        widget.to_html(quiz="grad")
    with pytest.raises(ValueError, match="'grad', 'value'"):
        widget.to_html(live=True, quiz="colour")


def test_pages_of_a_folder_share_a_script(tmp_path):
    w = torch.tensor(1.5, requires_grad=True)
    with watch():
        loss = w * 2
    widget = GraphWidget(loss)
    widget.to_html(tmp_path / "a.html", live=True, assets="shared")
    widget.to_html(tmp_path / "b.html", live=True, assets="shared")
    widget.to_html(tmp_path / "c.html", assets="shared")
    scripts = sorted(path.name for path in tmp_path.glob("*.js"))
    live, plain = ((tmp_path / name).read_text() for name in ("a.html", "c.html"))
    assert len(scripts) == 2
    assert sum(f'src="{name}"' in live for name in scripts) == 1
    assert "gradwalk-program" in live
    assert "gradwalk-program" not in plain
    assert len(live) < 40_000


@pytest.mark.parametrize("quiz", ["grad", "value"])
def test_a_quiz_has_no_answer_in_plain_text(quiz):
    w = torch.tensor(1.2345, requires_grad=True)
    with watch():
        loss = torch.sigmoid(w * 3) ** 2
    loss_value = loss.item()
    (grad,) = torch.autograd.grad(loss, w, retain_graph=True)
    text = GraphWidget(loss).to_html(live=True, quiz=quiz)
    for answer in (loss_value, grad.item()):
        assert f"{answer:.4g}" not in text.partition("<script>")[0]


def test_a_module_that_is_gone_has_a_live_page():
    with watch():
        net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        loss = net(torch.ones(1, 2)).sum()
    widget = GraphWidget(loss)
    del net
    program = program_in(widget.to_html(live=True))
    assert [one["name"] for one in program["inputs"] if one["leaf"]][:1] != []
    assert sum(one["leaf"] and one["grad"] is not None for one in program["inputs"]) == 4


def test_random_numbers_are_the_recorded_ones():
    torch.manual_seed(0)
    w = torch.ones(4, requires_grad=True)
    with watch():
        loss = torch.nn.functional.dropout(w, 0.5).sum()
    before = torch.get_rng_state()
    program = program_in(GraphWidget(loss).to_html(live=True))
    assert torch.equal(before, torch.get_rng_state())
    value = next(one for one in program["values"] if one["node"] == 0)
    assert value["now"] == loss.item()


def test_the_program_changes_nothing():
    w, running = torch.ones(3, requires_grad=True), torch.zeros(3)
    x = torch.randn(4, 3)
    with watch():
        h = torch.nn.functional.batch_norm(x * w, running, torch.ones(3), training=True)
        loss = (h**2 * w).sum()
    kept = running.clone()
    GraphWidget(loss).to_html(live=True)
    assert torch.equal(running, kept)
    assert w.grad is None


def test_names_cannot_end_the_script():
    name = "</script><img src=x onerror=alert(1)>"
    w = torch.tensor(1.5, requires_grad=True)
    with watch():
        loss = w * 2
    text = GraphWidget(loss, names={name: w}).to_html(live=True)
    assert name not in text
    assert program_in(text)["inputs"][0]["name"] == name


def test_a_block_of_many_calls_is_refused_until_a_backward_pass_begins_again():
    w = torch.tensor(1.5, requires_grad=True)
    with watch():
        many = w * 1
        for _ in range(700):
            many = many + 1
        many.backward()
        few = w * 2
    with pytest.raises(ValueError, match="up to 600 calls"):
        GraphWidget(many).to_html(live=True)
    program = program_in(GraphWidget(few).to_html(live=True))
    assert [one["name"] for one in program["inputs"] if one["leaf"]] == ["w"]


def test_a_large_leaf_is_refused_once_it_changed_and_a_small_one_is_kept():
    large, small = (torch.ones(n, requires_grad=True) for n in (17, 16))
    with watch():
        refused, kept = (large * 2).sum(), (small * 2).sum()
    with torch.no_grad():
        large.zero_()
        small.zero_()
    kept_widget = GraphWidget(kept)
    refused_widget = GraphWidget(refused)
    program = program_in(kept_widget.to_html(live=True))
    assert program["values"][0]["now"] == 32
    with pytest.raises(ValueError, match="before a step of the optimizer"):
        refused_widget.to_html(live=True)


def test_a_change_in_place_between_two_uses_runs_again():
    w, x = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(2)
    with watch():
        mask = x * 3
        before = (w + mask).sum()
        mask[0] = 5.0
        mask.mul_(2)
        loss = before + (w * mask).sum()
    program = program_in(GraphWidget(loss).to_html(live=True))
    assert program["values"][0]["now"] == 4 + 5 + 10 + 12


def test_a_step_that_goes_on_from_an_earlier_one_is_live():
    w = torch.tensor(2.0, requires_grad=True)
    with watch():
        h = w * 3
        h.backward(retain_graph=True)
        goes_on = h * w
        cut = h.detach() * w
    for loss, value in ((goes_on, 12), (cut, 12)):
        program = program_in(GraphWidget(loss).to_html(live=True))
        assert program["values"][0]["now"] == value


def test_the_log_keeps_no_tensor_alive():
    w = torch.ones(3, requires_grad=True)
    with watch():
        h = w + 1
        loss = (h * 2).sum()
        known = weakref.ref(h)
        del h
        assert known() is None
    assert loss.requires_grad


def test_a_frozen_parameter_is_given_as_it_was_used():
    w = torch.tensor(2.0, requires_grad=True)
    with watch():
        made = torch.nn.Parameter(torch.empty(1), requires_grad=False)
        torch.nn.init.constant_(made, 3.0)
        loss = (w * made).sum()
    program = program_in(GraphWidget(loss).to_html(live=True))
    (given,) = (one for one in program["inputs"] if one["name"] == "made")
    assert given["ranges"] == [[-6.0, 6.0, 0.06]]  # about 3
    with watch():
        early = w + made
        made.mul_(2)
        loss = (early + w.detach() * made).sum()
    with pytest.raises(ValueError, match="was changed since"):
        GraphWidget(loss).to_html(live=True)
