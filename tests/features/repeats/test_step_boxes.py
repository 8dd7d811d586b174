from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from gradwalk import GraphWidget, watch


def boxes_of(loss: Tensor, names: nn.Module | None = None) -> dict[str, int]:
    """The boxes of operations -> how many operations are in each."""
    widget = GraphWidget(loss, names=names)
    nodes = widget.model["nodes"]
    widget.close()
    return Counter(node["namespace"] or "" for node in nodes if node["kind"] == "op")


def leaf_boxes(loss: Tensor, names: nn.Module | None = None) -> list[str]:
    widget = GraphWidget(loss, names=names)
    nodes = widget.model["nodes"]
    widget.close()
    return sorted(node["namespace"] or "" for node in nodes if node["kind"] == "leaf")


def rnn(steps: int, h: Tensor) -> Tensor:
    w, u = (torch.randn(4, 4, requires_grad=True) for _ in "wu")
    for x in torch.randn(steps, 1, 4):
        h = torch.tanh(x @ w + h @ u)
    return h.sum()


def test_each_time_step_of_a_loop_has_a_box():
    found = boxes_of(rnn(50, torch.zeros(1, 4)))
    assert found == {"": 1, **{f"step {t}": 4 for t in range(50)}}


def test_a_small_graph_has_none():
    assert set(boxes_of(rnn(3, torch.zeros(1, 4)))) == {""}


def test_a_decoder_s_loop_does_not_end_the_one_of_its_encoder():
    w, u, v = (torch.randn(4, 4, requires_grad=True) for _ in range(3))
    hidden, loss = torch.zeros(1, 4), torch.zeros(())
    for _ in range(5):
        hidden = torch.tanh(hidden @ w + torch.randn(1, 4) @ u)
    for _ in range(5):
        hidden = torch.tanh(hidden @ w + torch.randn(1, 4) @ u)
        loss = loss + (hidden @ v).square().mean()
    names = {name.split("step")[0] for name in boxes_of(loss) if name}
    steps = [name for name in boxes_of(loss) if name]
    assert names == {"", "loop 2 "}
    assert len(steps) == 10


def test_shared_weights_and_the_initial_state_stay_outside():
    assert leaf_boxes(rnn(50, torch.zeros(1, 4, requires_grad=True))) == ["", "", ""]


def test_the_weights_of_one_step_are_in_its_box():
    x = torch.randn(4, requires_grad=True)
    for _ in range(20):
        x = torch.tanh(torch.randn(4, 4, requires_grad=True) @ x) * 2
    assert leaf_boxes(x.sum()) == sorted(["", *(f"step {t}" for t in range(20))])


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 4), nn.Linear(4, 1)

    def forward(self, h: Tensor) -> Tensor:
        loss = torch.zeros(())
        for x in torch.randn(12, 1, 4):
            h = self.cell(x, h)
            loss = loss + self.head(h).pow(2).mean()
        return loss


def test_a_step_with_modules_goes_around_them_watched_or_not():
    model = Decoder()
    with watch():
        watched = model(torch.zeros(1, 4))
    for loss in (watched, model(torch.zeros(1, 4))):
        found = boxes_of(loss, model)
        for t in range(12):
            assert {f"step {t}/cell", f"step {t}/head"} <= set(found)


def test_the_weights_of_a_module_that_all_steps_call_are_in_its_box_watched_or_not():
    model = Decoder()
    with watch():
        watched = model(torch.zeros(1, 4))
    for loss in (watched, model(torch.zeros(1, 4))):
        assert leaf_boxes(loss, model) == [*["cell"] * 4, *["head"] * 2]


def test_weights_that_two_modules_share_or_that_are_used_outside_stay_outside():
    cell, head = nn.RNNCell(4, 4), nn.Linear(4, 4)
    head.weight = cell.weight_hh
    h = torch.zeros(1, 4)
    with watch():
        for x in torch.randn(12, 1, 4):
            h = head(cell(x, h))
        loss = h.sum() + cell.bias_ih.sum()
    assert leaf_boxes(loss).count("") == 2


def test_the_output_is_outside_of_the_last_step():
    with watch():
        loss = Decoder()(torch.zeros(1, 4))
    widget = GraphWidget(loss)
    root = widget.model["roots"][0]["node"]
    assert not widget.model["nodes"][root]["namespace"]
    widget.close()


def test_different_layers_of_one_class_are_no_loop():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(30)))
    found = boxes_of(model(torch.randn(2, 4)).sum(), model)
    assert not any("step" in path for path in found)


def test_one_layer_called_again_and_again_is_a_loop():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x = torch.randn(1, 3, 8)
    with watch():
        for _ in range(6):
            x = layer(x)
    assert {path.split("/")[0] for path in boxes_of(x.sum(), layer)} == {
        "",
        *(f"step {t}" for t in range(6)),
    }


def test_segments_that_use_no_result_of_each_other_are_no_loop():
    w = torch.randn(4, requires_grad=True)
    parts = [torch.tanh(w * i).sin().exp().sum() for i in range(30)]
    assert not any("step" in path for path in boxes_of(torch.stack(parts).sum()))


def test_two_loops_have_names_of_their_own():
    w = torch.randn(4, requires_grad=True)
    x = w
    for _ in range(15):
        x = torch.tanh(x * w)
    for _ in range(15):
        x = (x - w).sin().exp()
    loops = {path.rstrip("0123456789") for path in boxes_of(x.sum())}
    assert loops == {"", "step ", "loop 2 step "}


def levels(count: int, x: Tensor, is_reversed: bool) -> Tensor:
    """Two runs of levels, the second of which uses the results of the first."""
    weights = [torch.ones(4, 4, requires_grad=True) for _ in range(2 * count)]
    kept = []
    for weight in weights[:count]:
        x = (x @ weight).relu().sin().exp()
        kept.append(x)
    for weight, before in zip(weights[count:], kept[::-1] if is_reversed else kept, strict=True):
        x = ((x + before) @ weight).relu().cos()
    return x.sum()


def test_the_halves_of_a_u_net_are_no_loops():
    x = torch.ones(4, 4)
    assert set(boxes_of(levels(4, x, is_reversed=True))) == {""}
    assert len(boxes_of(levels(4, x, is_reversed=False))) == 9  # two layers of a recurrent net
    assert len(boxes_of(levels(12, x, is_reversed=True))) == 25  # too many for a U-Net
