"""Modules inferred from names, compared with what `watch` saw while the same net ran."""

from __future__ import annotations

import more_architectures  # noqa: F401  (enters its nets)
import pytest
import torch
from architectures import ARCHITECTURES
from torch import Tensor, nn
from torch.nn import functional as F

from gradwalk.forward.annotations import annotation_of
from gradwalk.forward.watch import watch
from gradwalk.graph.capture import Capture, capture_nodes
from gradwalk.graph.names import module_classes, read_names
from gradwalk.graph.outputs import read_outputs
from gradwalk.modules.namespaces import infer_namespaces

# Nothing but the parameters' names is known: these nets have no modules without parameters.
PLAIN = [
    "lenet", "functional_resnet", "unet", "cross_attention_decoder", "lstm_cell_loop", "gated_loop",
    "lstm", "gru", "gru_cells", "rnn_cell", "mlp_mixer", "llama", "siamese", "weight_norm", "vae",
]  # fmt: skip
# Whether a gate is in its module or in the one around, nothing but its own code can tell.
AMBIGUOUS = ["senet"]


def captured_and_watched(net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Capture, dict]:
    with watch():
        loss = net(*inputs).square().mean()
    captured = capture_nodes(read_outputs((loss,), "test"), read_names(net, "test"))
    watched = {}
    for i, kind in captured.graph.nodes(data="kind"):
        if kind == "op":
            annotation = annotation_of(captured.nodes[i], (loss,))
            assert annotation is not None
            watched[i] = (annotation.module or "").replace(".", "/")
    return captured, watched


def agreement(inferred: dict[int, str], watched: dict[int, str]) -> float:
    """The share of operations with the very module that ran them.

    Outside of all modules and in the outermost one are the same, as both have no path.
    """
    return sum(inferred[i] == module for i, module in watched.items()) / len(watched)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in AMBIGUOUS])
def test_with_the_modules_classes_inferred_is_watched(name):
    net, inputs = ARCHITECTURES[name]()
    captured, watched = captured_and_watched(net, inputs)
    inferred = infer_namespaces(captured, module_classes(net))
    wrong = {i: (inferred[i], watched[i]) for i in watched if inferred[i] != watched[i]}
    assert agreement(inferred, watched) >= 0.95, wrong


@pytest.mark.parametrize("name", PLAIN)
def test_with_the_parameters_names_alone_inferred_is_watched(name):
    captured, watched = captured_and_watched(*ARCHITECTURES[name]())
    assert agreement(infer_namespaces(captured), watched) >= 0.95


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_what_names_cannot_tell_falls_in_an_enclosing_module(name):
    net, inputs = ARCHITECTURES[name]()
    captured, watched = captured_and_watched(net, inputs)
    inferred = infer_namespaces(captured)
    around = {
        i: module
        for i, module in watched.items()
        if f"{module}/".startswith(f"{inferred[i]}/") or not inferred[i]
    }
    assert len(around) / len(watched) >= 0.9


def test_a_sequence_is_filled_by_its_numbers():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Softplus(), nn.Linear(3, 1))
    captured, watched = captured_and_watched(net, (torch.randn(2, 3),))
    assert infer_namespaces(captured).items() >= watched.items()


def test_parameters_are_where_they_belong_and_inputs_where_they_are_used():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    x = torch.randn(2, 3, requires_grad=True)
    captured = capture_nodes(read_outputs((net(x),), "test"), read_names(net, "test"))
    inferred = infer_namespaces(captured)
    by_name = {captured.graph.nodes[i]["name"]: inferred[i] for i in captured.graph}
    assert by_name["0.weight"] == by_name["0.bias"] == "0"
    assert by_name["1.bias"] == "1"
    assert by_name[None] == "0"  # x, and the operations


def test_a_variables_name_is_the_outermost_module():
    net, inputs = ARCHITECTURES["lenet"]()
    loss = F.mse_loss(net(*inputs), torch.zeros(2, 10))
    captured = capture_nodes(read_outputs((loss,), "test"), read_names({"net": net}, "test"))
    inferred = infer_namespaces(captured, module_classes({"net": net}))
    assert inferred[0] == ""  # the loss
    assert {i for i in inferred.values() if i.count("/") == 0} == {"", "net"}
    relus = [i for i in inferred if captured.graph.nodes[i]["op"] == "ReluBackward0"]
    assert [inferred[i] for i in relus] == ["net"] * 4


def test_without_names_everything_is_outside_of_modules():
    x = torch.randn(3, requires_grad=True)
    captured = capture_nodes(read_outputs((x.relu().sum(),), "test"), read_names({"x": x}, "test"))
    assert set(infer_namespaces(captured).values()) == {""}


def test_in_place_and_double_backward_graphs_have_a_module_each():
    net, inputs = ARCHITECTURES["mlp"]()
    (gradient,) = torch.autograd.grad(
        net(*inputs).square().sum(), net[0][0].weight, create_graph=True
    )
    captured = capture_nodes(read_outputs((gradient.sum(),), "test"), read_names(net, "test"))
    assert infer_namespaces(captured, module_classes(net)).keys() == set(captured.graph)


def test_a_shared_module_without_parameters_has_the_name_of_its_turn():
    relu = nn.ReLU()
    net = nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu)
    assert (
        module_classes(net)["1"] == module_classes(net)["3"] == "torch.nn.modules.activation.ReLU"
    )
    captured, watched = captured_and_watched(net, (torch.randn(2, 2),))
    assert infer_namespaces(captured, module_classes(net)).items() >= watched.items()


def test_the_class_is_the_one_whose_forward_runs():
    class Named(nn.Sequential):
        pass

    class Own(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return x

    classes = module_classes({"a": Named(), "b": Own(), "c": nn.ModuleList(), "d": 3})
    assert classes["a"] == "torch.nn.modules.container.Sequential"
    assert classes["b"].endswith("Own")
    assert classes["c"] == "torch.nn.modules.module.Module"
    assert "d" not in classes


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(F.gelu(self.wide(x)))


class OneBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.blocks = nn.Linear(4, 4), nn.ModuleList([Residual()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return torch.tanh(x)


def test_the_sum_at_the_end_of_a_lone_block_is_the_blocks():
    net = OneBlock()
    captured, watched = captured_and_watched(net, (torch.randn(3, 4),))
    assert watched.items() <= infer_namespaces(captured, module_classes(net)).items()
    assert watched.items() <= infer_namespaces(captured).items()
