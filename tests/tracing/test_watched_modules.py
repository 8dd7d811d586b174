"""Which modules `watch` saw the nodes made in."""

from __future__ import annotations

import torch
from annotation_of import annotation_of
from engine import operations_behind
from programs import leaf
from test_watch import seen
from torch import Tensor, nn

from gradwalk import GraphWidget
from gradwalk.tracing.watch import watch


class Twice(nn.Module):
    """Uses one module twice under one name, and one under two names."""

    def __init__(self):
        super().__init__()
        self.block = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.Tanh())])
        shared = nn.Sigmoid()
        self.pair = nn.Sequential(shared, nn.Linear(2, 2), shared)

    def forward(self, x):
        for _ in range(2):
            x = self.block[0](x)
        return self.pair(x) * 2


def paths(output: Tensor) -> list[tuple[str, str | None]]:
    found = [(node.name(), annotation_of(node)) for node in operations_behind(output)]
    return [(name, a.module) for name, a in reversed(found)]


def test_module_paths_of_nested_and_reused_modules():
    model = Twice()
    with watch():
        outside = leaf(2) + 1
        y = model(outside)
    elementwise = ("Add", "Tanh", "Sigmoid", "Mul")
    found = [each for each in paths(y) if each[0].removesuffix("Backward0") in elementwise]
    assert found == [
        ("AddBackward0", None),
        ("TanhBackward0", "block.0.1"),
        ("TanhBackward0", "block.0.1"),
        ("SigmoidBackward0", "pair.0"),
        ("SigmoidBackward0", "pair.2"),
        ("MulBackward0", ""),
    ]
    assert seen(y).module_root == "Twice"


def test_module_paths_agree_with_named_modules():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.ModuleDict({"encoder": nn.TransformerEncoder(layer, 2)})
    wrapped = nn.Sequential(model["encoder"], nn.Linear(8, 1))
    with watch():
        y = wrapped(torch.randn(2, 3, 8))
    named = dict(wrapped.named_modules())
    norms = [node for node in operations_behind(y) if "LayerNorm" in node.name()]
    for node in norms:
        module = named[annotation_of(node).module]
        (bias,) = [child for child, _ in node.next_functions[2:]]
        assert bias.variable is module.bias
    found = {annotation_of(node).module for node in operations_behind(y)}
    assert {"0.layers.0.linear1", "0.layers.1.self_attn", "1"} <= found


def test_a_module_that_is_no_submodule_is_named_after_its_class():
    other = nn.Tanh()

    class Outer(nn.Module):
        def forward(self, x):
            return other(x)

    with watch():
        y = Outer()(leaf(2))
    assert (seen(y).module, seen(y).module_root) == ("(Tanh)", "Outer")


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def training_step(self, x):
        return self.actor(x).sum() + self.critic(x).sum()


def boxes(drawn):
    found = [node["namespace"] for node in drawn.model["nodes"] if node["op"] == "TanhBackward0"]
    drawn.close()
    return set(found)


def test_networks_side_by_side_stay_apart():
    agent, x = Agent(), torch.ones(1, 2)
    with watch():
        by_method = agent.training_step(x)
        one = agent.actor(x).sum()
    assert boxes(GraphWidget(by_method)) == {"actor/1", "critic/1"}, "what a variable holds all of"
    assert boxes(GraphWidget(by_method, names=agent)) == {"actor/1", "critic/1"}
    assert boxes(GraphWidget(by_method, names={})) == {"(Sequential)/1", "(Sequential 2)/1"}
    assert boxes(GraphWidget(one)) == {"actor/1"}
    net = agent.actor
    with watch():
        alone = net(x).sum()
    assert boxes(GraphWidget(alone, names={"net": net})) == {"1"}
    critic = agent.critic
    with watch():
        both = net(x).sum() + critic(x).sum()
    assert boxes(GraphWidget(both, names={"net": net, "critic": critic})) == {"net/1", "critic/1"}


def test_a_cut_is_in_the_module_that_made_it():
    class Inner(nn.Module):
        def forward(self, x):
            return x.detach()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.last = nn.Linear(2, 2), Inner(), nn.Linear(2, 1)

        def forward(self, x):
            return self.last(self.inner(self.first(x)))

    net = Outer()
    with watch():
        loss = net(torch.ones(1, 2)).sum()
    node = next(node for node in operations_behind(loss) if node.name() == "AddmmBackward0")
    (cut,) = annotation_of(node).cuts
    assert (annotation_of(node).module, cut.module.path) == ("last", "inner")


def test_a_variable_is_an_input_of_the_modules_and_a_buffer_is_in_its_own():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x):
            return self.layer(x) * self.shift

    net, images = Shifted(), torch.ones(1, 2)

    def places(names):
        with watch():
            widget = GraphWidget(net(images).sum(), names=names)
        return {node["name"]: node["namespace"] for node in widget.model["nodes"]}

    assert places({"images": images})["images"] == ""
    assert places(net)["shift"] is None
