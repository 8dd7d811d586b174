"""`plan`: its numbers by hand, what it leaves unchanged, and its errors."""

from __future__ import annotations

import copy

import pytest
import torch
from planned_steps import STEPS, Decoder, Step, next_tokens, tokens
from torch import nn

import gradwalk
from gradwalk import plan
from gradwalk.results import Plan


def planned(step: Step) -> Plan:
    return plan(step.model, step.batch, loss=step.loss, optimizer=step.optimizer)


def test_amounts_of_a_linear_layer():
    found = plan(nn.Linear(8, 4), torch.ones(16, 8), loss=lambda y: y.exp().sum())
    assert found.parameters == 4 * (8 * 4 + 4)
    assert found.gradients == found.parameters
    assert found.inputs == 4 * 16 * 8
    assert found.saved == 4 * 16 * 4  # exp keeps its result
    assert (found.flops_forward, found.flops_backward) == (2 * 16 * 8 * 4, 2 * 16 * 8 * 4)
    assert found.buffers == found.optimizer_state == 0


def test_optimizer_state_is_that_of_a_later_step():
    step = STEPS["decoder_with_adamw"]()
    found = planned(step)
    number = len(list(step.model.parameters()))
    assert found.optimizer_state == 2 * found.parameters + 4 * number
    assert found.peak > planned(step._replace(optimizer=None)).peak + 2 * found.parameters


def test_the_peak_has_its_node_module_and_line():
    step = STEPS["decoder"]()
    found = planned(step)
    loss = step.loss(step.model(step.batch), step.batch)
    ops = gradwalk.capture(loss).nodes(data="op")
    assert found.at.phase == "backward"
    assert ops[found.at.node] == found.at.op
    assert found.at.source.endswith(".py:" + found.at.source.rpartition(":")[2])
    assert found.curve[found.at.index] == max(found.curve) == found.peak
    for each in found.tensors(limit=None):
        if each.node is not None:
            assert ops[each.node] == each.made.op


def test_tensors_at_the_peak_add_up_to_it():
    found = planned(STEPS["mixed_precision"]())
    held = found.tensors(limit=None)
    assert sum(each.bytes for each in held) == found.peak
    assert [each.bytes for each in held] == sorted((each.bytes for each in held), reverse=True)
    assert {each.copy_of for each in held} >= {"float32", "bfloat16"}  # autocast keeps both
    assert len(found.tensors(limit=3)) == 3
    assert "parameter" in {each.role for each in held}


def test_modules_add_up():
    found = planned(STEPS["decoder"]())
    root = found.modules[""]
    assert (root.parameters, root.saved, root.at_peak) == (
        found.parameters,
        found.saved,
        found.peak,
    )
    assert (root.flops_forward, root.flops_backward) == (found.flops_forward, found.flops_backward)
    layers = [found.modules[f"layers.{i}"] for i in range(4)]
    assert found.modules["layers"].saved == sum(each.saved for each in layers)
    assert found.modules["model.layers.3.up"] == found.modules["layers.3.up"]
    with pytest.raises(KeyError, match=r"no module 'layers.9'"):
        found.modules["layers.9"]


def test_flops_are_two_for_each_parameter_and_token():
    model, batch = Decoder(width=256, inner=(1024,)), tokens(2, 64)
    found = plan(model, batch, loss=next_tokens)
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2) - 50 * 256
    attention = 4 * 2 * 2 * 64 * 64 * 256  # blocks, products, sequences
    by_hand = 2 * matrices * batch.numel() + 2 * attention
    assert found.flops_forward == pytest.approx(by_hand, rel=0.01)
    by_hand = 4 * matrices * batch.numel() + 5 * attention
    assert found.flops_backward == pytest.approx(by_hand, rel=0.01)


@pytest.mark.parametrize("name", ["decoder", "tied", "convolutions", "long_short_term_memory"])
def test_model_on_meta_and_a_function_plan_the_same(name):
    step = STEPS[name]()
    with torch.device("meta"):
        model = copy.deepcopy(step.model).to("meta")
    if name == "tied":
        model.head.weight = model.embed.weight
    given = {"loss": step.loss}
    assert plan(model, step.batch, **given).curve == planned(step).curve
    assert plan(lambda: STEPS[name]().model, step.batch.to("meta"), **given).curve == (
        planned(step).curve
    )


@pytest.mark.parametrize("name", STEPS)
def test_planning_changes_nothing(name):
    step = STEPS[name]()
    before = {
        key: (value, value.clone(), value._version)
        for key, value in step.model.state_dict().items()
    }
    grads = [p.grad for p in step.model.parameters()]
    attributes = [dict(vars(module)) for module in step.model.modules()]
    resize, state = torch.UntypedStorage.resize_, torch.get_rng_state()
    planned(step)
    for key, value in step.model.state_dict().items():
        assert value.data_ptr() == before[key][0].data_ptr()
        assert torch.equal(value, before[key][1])
        assert value._version == before[key][2]
    assert all(
        a is b for a, b in zip(grads, (p.grad for p in step.model.parameters()), strict=True)
    )
    assert torch.equal(state, torch.get_rng_state())
    assert torch.UntypedStorage.resize_ is resize
    for module, old in zip(step.model.modules(), attributes, strict=True):
        assert all(vars(module)[key] is value for key, value in old.items())


def test_attributes_that_forward_sets_do_not_stay():
    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.seen = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            self.last = self.layer(x)
            self.register_buffer("kept", x)
            return self.last

    model = Caching()
    plan(model, torch.ones(2, 4), loss=torch.sum)
    assert model.seen == 0
    assert not hasattr(model, "last")
    assert not hasattr(model, "kept")


def test_wrong_arguments_are_said():
    x, layer = torch.ones(2, 4), nn.Linear(4, 4)
    with pytest.raises(TypeError, match="model was given a str"):
        plan("model", x)
    with pytest.raises(TypeError, match="a function that returned a int"):
        plan(lambda: 3, x)
    with pytest.raises(
        ValueError, match=r"The model returned a tensor of shape \(2, 4\).* Give loss="
    ):
        plan(layer, x)
    with pytest.raises(ValueError, match="does not require grad"):
        plan(layer, x, loss=lambda y: y.detach().sum())
    with pytest.raises(TypeError, match="loss returned a NoneType"):
        plan(layer, x, loss=lambda y: None)
    with pytest.raises(TypeError, match="optimizer returned a list"):
        plan(layer, x, loss=torch.sum, optimizer=list)
    with pytest.raises(TypeError, match="optimizer was given a float"):
        plan(layer, x, loss=torch.sum, optimizer=0.1)
    with pytest.raises(ValueError, match=r"optimizer was given 'AdamX'.* AdamW|Adam"):
        plan(layer, x, loss=torch.sum, optimizer="AdamX")
    with pytest.raises(ValueError, match="ranks was given 0"):
        plan(layer, x, loss=torch.sum, ranks=0)


def test_a_plan_prints_its_totals():
    found = planned(STEPS["decoder_with_adamw"]())
    text = str(found)
    assert f"Peak {found.peak}: {found.at}" in text
    assert f"optimizer state {found.optimizer_state}" in text
    assert "layers.0 … 1 (2 together)" in text
    assert found.not_counted in text
    assert repr(found) == f"Plan(peak {found.peak} at {found.at})"


def test_compiled_modules_are_planned_as_written():
    step = STEPS["decoder"]()
    plain = planned(step)
    for layer in step.model.layers:
        layer.compile(backend="eager")
    found = planned(step)
    assert found.curve == plain.curve
    assert found.compiled == ("layers.0", "layers.1", "layers.2", "layers.3")


@pytest.mark.full
def test_a_model_of_seventy_billion_parameters_is_planned():
    with torch.device("meta"):
        model = Decoder(blocks=80, width=8192, inner=(43008,)).bfloat16()
    found = plan(model, torch.zeros(1, 8192, dtype=torch.long, device="meta"), loss=next_tokens)
    assert found.parameters > 130e9


def test_times_are_estimated_from_a_data_sheet():
    model = nn.Linear(1024, 1024, bias=False)
    found = plan(model, torch.ones(512, 1024), loss=torch.sum, device="NVIDIA H100")
    # Forward and the weight's gradient: 67 TFLOP/s, more than their memory traffic takes.
    assert found.device == "NVIDIA H100"
    assert found.estimated_seconds > found.flops / 67e12
    assert found.estimated_seconds < found.flops / 67e12 + 20 * 1024**2 / 3350e9
    assert found.modules[""].estimated_seconds == found.estimated_seconds
    assert "Estimated on NVIDIA H100" in str(found)
    labels = [each["label"] for each in found.widget._overlays]
    assert labels == ["FLOPs, planned", "time, estimated on NVIDIA H100"]
    assert plan(model, torch.ones(2, 1024), loss=torch.sum).estimated_seconds is None


def test_half_precision_is_estimated_without_sparsity():
    model = nn.Linear(4096, 4096, bias=False).bfloat16()
    batch = torch.ones(4096, 4096, dtype=torch.bfloat16)
    found = plan(model, batch, loss=torch.sum, device="h100")
    assert found.estimated_seconds == pytest.approx(found.flops / 989.5e12, rel=0.2)


@pytest.mark.parametrize("device", ["NVIDIA L4", "abacus"])
def test_devices_without_known_rates_are_refused(device):
    with pytest.raises(ValueError, match="whose rates are not known"):
        plan(nn.Linear(2, 2), torch.ones(1, 2), loss=torch.sum, device=device)


class FrozenSecond(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        with torch.no_grad():
            shift = self.second(x)
        return self.third(x + shift)


def test_operations_without_grad_are_of_no_node():
    found = plan(FrozenSecond(), torch.ones(8, 64), loss=torch.sum, optimizer=torch.optim.AdamW)
    one = 2 * 8 * 64 * 64
    assert found.modules["second"].flops_forward == one
    (work,) = found.widget._overlays
    assert sum(work["values"]) == found.flops - one
    step = found.place(len(found.curve) - 1)
    assert (step.phase, step.node) == ("optimizer step", None)


def test_lazy_modules_are_refused():
    with pytest.raises(TypeError, match="lazy module"):
        plan(nn.LazyLinear(4), torch.ones(2, 3), loss=torch.sum)
