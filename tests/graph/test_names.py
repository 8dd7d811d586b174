"""Tensors are called what the user calls them."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import weakref
from unittest import mock

import pytest
import torch
from torch import nn

from gradwalk import (
    GraphWidget,
    capture,
    compare,
    compare_numerics,
    contributions,
    diagnose,
    explain_grad,
    load,
    record,
    save,
    watch,
    what_if,
)
from gradwalk.graph.held_by import attributes_in
from gradwalk.graph.names import names_among, read_names


def names_in(widget):
    found = [n["name"] for n in widget.model["nodes"] if n["kind"] in ("op", "leaf")]
    widget.close()
    return found


scale = torch.tensor([2.0], requires_grad=True)


def test_the_callers_variables_name_leaves_intermediates_and_outputs():
    x = torch.ones(1, requires_grad=True)
    product = scale * x
    total = product + 1
    assert names_in(GraphWidget(total)) == ["total", "product", "scale", "x"]


def test_modules_name_their_parameters():
    model = nn.Sequential(nn.Linear(2, 1))
    loss = model(torch.ones(1, 2)).sum()
    assert set(names_in(GraphWidget(loss))) >= {"loss", "model.0.weight", "model.0.bias"}


def test_containers_name_their_items_but_a_variable_wins():
    w = torch.ones(1, requires_grad=True)
    params = [w, torch.ones(1, requires_grad=True)]
    table = {"k": torch.ones(1, requires_grad=True)}
    out = w * params[1] * table["k"]
    assert set(names_in(GraphWidget(out))) >= {"out", "w", "params[1]", "table['k']"}


def test_a_variable_of_a_loop_over_parameters_gives_way_to_the_module():
    net = nn.Linear(2, 2)
    for p in net.parameters():
        p.data.fill_(1.0)
    param = nn.Parameter(torch.ones(2))
    names = names_among(locals())
    assert [names.name_of(each) for each in (net.weight, net.bias, param)] == [
        "net.weight",
        "net.bias",
        "param",
    ]


def test_history_names_are_no_names():
    t = torch.ones(1, requires_grad=True)
    assert names_among({"_": t, "_3": t, "Out": [t], "_oh": {3: t}}).leaves == {}
    assert names_among({"_": t, "real": t}).leaves == {id(t): "real"}
    assert names_among({"_hidden": t, "shown": t}).leaves == {id(t): "shown"}


def test_the_first_of_several_names_stays():
    t = torch.ones(1, requires_grad=True)
    assert names_among({"first": t, "second": t}).leaves == {id(t): "first"}


def test_a_mapping_and_a_module():
    model = nn.Linear(2, 1)
    y = model(torch.ones(1, 2))
    named = dict(capture(y, names={"net": model, "y": y}).nodes(data="name"))
    assert set(named.values()) >= {"y", "net.weight", "net.bias"}
    assert "weight" in dict(capture(y, names=model).nodes(data="name")).values()


def test_one_output_of_several_is_named_by_its_number():
    _, b, _ = torch.ones(3, 2, requires_grad=True).unbind()
    graph = capture(b, names={"b": b})
    assert [output["name"] for output in graph.nodes[0]["outputs"]] == [None, "b", None]


@pytest.mark.parametrize("names", [3, "w", [torch.ones(1)], {"w": 3}])
def test_wrong_names_are_a_type_error(names):
    with pytest.raises(TypeError, match=r"was given names=.*(Pass|Map) "):
        capture(torch.ones(1, requires_grad=True), names=names)


def test_names_do_not_keep_other_graphs_alive():
    other = torch.ones(3, requires_grad=True).exp()
    unrelated = (other * other).sum()
    t = torch.ones(1, requires_grad=True)
    widget = GraphWidget(t * 2)
    ref = weakref.ref(other)
    del other, unrelated
    gc.collect()
    assert ref() is None
    widget.close()


def test_variables_deleted_after_the_call_are_not_kept_alive():
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    unrelated = torch.ones(3)
    ref = weakref.ref(unrelated)
    widget = GraphWidget(y)
    del unrelated
    gc.collect()
    assert ref() is None
    widget.close()


def test_the_callers_own_variables_are_left_as_they_are():
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    mine = locals()
    before = dict(mine)
    GraphWidget(y).close()
    assert {key: mine.get(key) for key in before} == before


class Unnameable(nn.Module):
    def named_parameters(self, *_, **__):
        raise RuntimeError("not before it is initialised")


class Renamed(nn.Module):
    """A class that names its parameters itself, as FSDP's first version."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.removeprefix("inner."), parameter


class Listed(nn.Module):
    """A class that names its modules itself."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        for name, module in super().named_modules(memo, prefix, remove_duplicate):
            yield name.replace("inner", "outer"), module


def shared():
    layer = nn.Linear(2, 2)
    return nn.ModuleDict({"a": layer, "b": nn.Sequential(layer, nn.BatchNorm1d(2), layer)})


@pytest.mark.parametrize("prefix", ["", "net"])
@pytest.mark.parametrize(
    "make",
    [shared, Renamed, Listed, lambda: nn.Sequential(Listed(), nn.Bilinear(1, 2, 3, bias=False))],
)
def test_modules_and_what_they_hold_are_called_as_torch_calls_them(make, prefix):
    model = make()
    found = read_names(model if not prefix else {prefix: model}, "test")

    def full(name):
        return ".".join(filter(None, (prefix, name)))

    modules = model.named_modules(remove_duplicate=False)
    assert {path: ref() for path, ref in found.modules.items()} == {
        full(name): module for name, module in modules
    }
    named = [*model.named_parameters(), *model.named_buffers()]
    assert {key: name for key, (name, _) in found.known.items()} == {
        id(tensor): full(name) for name, tensor in named
    }
    assert found.parameters[prefix] == {
        id(parameter): full(name) for name, parameter in model.named_parameters()
    }


class Unbound:
    """Raise as the isinstance() of a proxy without its object."""

    @property
    def __class__(self):
        raise RuntimeError("working outside of its context")


@pytest.mark.parametrize("make", [Unnameable, Unbound, lambda: mock.Mock(spec=nn.Module)])
def test_a_variable_that_cannot_be_looked_at_does_not_stop_the_others(make):
    bad = make()  # noqa: F841
    w = torch.ones(1, requires_grad=True)
    h = w * 2
    assert names_in(GraphWidget(h)) == ["h", "w"]


def test_a_comprehension_a_nested_function_and_a_class_body_are_callers_too():
    w = torch.ones(1, requires_grad=True)
    assert [names_in(GraphWidget(v))[0] for v in [w * 2]] == ["v"]

    def function():
        local = w.exp()
        return names_in(GraphWidget(local))

    assert function() == ["local", "w"]

    class Body:
        attribute = torch.ones(1, requires_grad=True)
        found = names_in(GraphWidget(attribute * 2))

    assert Body.found == [None, "attribute"]


def test_names_given_are_the_only_names():
    w = torch.ones(1, requires_grad=True)
    h = w * 2
    assert names_in(GraphWidget(h, names={"weight": w})) == [None, "weight"]
    assert names_in(GraphWidget(h, names={})) == [None, None]


def test_a_name_is_text_whatever_it_holds():
    w = torch.ones(1, requires_grad=True)
    name = "<img src=x onerror=alert(1)>"
    assert names_in(GraphWidget(w * 2, names={name: w})) == [None, name]


def test_a_view_of_a_leaf_is_another_tensor():
    w = torch.ones(1, requires_grad=True)
    view = w.view(1)
    h = view * 2
    assert names_in(GraphWidget(h)) == ["h", "view", "w"]


@pytest.mark.parametrize("places", [1, 2, 4, 5, 1_000])
@pytest.mark.parametrize("watched", [False, True])
def test_a_tied_weight_is_told_by_all_its_names(places, watched):
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(places)))
    for layer in model:
        layer.weight = model[0].weight
    with watch() if watched else contextlib.nullcontext():
        loss = model[-1](torch.ones(1, 2)).sum()
    widget = GraphWidget(loss, names=model)
    node = next(n["id"] for n in widget.model["nodes"] if n["name"] == "0.weight")
    widget.selected = node
    about = widget.details["about"]
    widget.close()
    names = [f"{i}.weight" for i in range(places)]
    if places > 1:
        more = f" = {places - 4} more" if places > 4 else ""
        assert about.startswith(f"{' = '.join(names[:4])}{more}: one tensor")
    assert "0.weight is a leaf" in about
    assert (places > 1) == ("one tensor" in about)


def updated(loss, quokka):
    widget = GraphWidget(loss * 2, names={})
    widget.update(loss)
    return names_in(widget)


def diagnosed(loss, quokka):
    quokka = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])  # the second is not used
    return diagnose(quokka[0](torch.ones(1)).sum())


def diagnosed_by_widget(loss, quokka):
    quokka = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])
    return GraphWidget(quokka[0](torch.ones(1)).sum(), names={}).diagnose()


@pytest.mark.parametrize(
    "call",
    [
        lambda loss, quokka: names_in(GraphWidget(loss)),
        lambda loss, quokka: compare(loss, loss * 1).table,
        lambda loss, quokka: [row.label for row in compare_numerics(loss, loss * 1).rows],
        lambda loss, quokka: record(loss).graph.nodes(data="name"),
        diagnosed,
        lambda loss, quokka: explain_grad(quokka, loss),
        lambda loss, quokka: what_if(loss).after,
        lambda loss, quokka: contributions(quokka, loss),
        updated,
        diagnosed_by_widget,
    ],
    ids=[
        *("GraphWidget", "compare", "compare_numerics", "record", "diagnose", "explain_grad"),
        *("what_if", "contributions", "update", "widget.diagnose"),
    ],
)
def test_every_function_names_tensors_by_the_variables_of_its_caller(call):
    leaf = torch.zeros(3, requires_grad=True)
    loss = (leaf * 2).sum()
    assert "quokka" in str(call(loss, leaf))


def test_save_names_tensors_by_the_variables_of_its_caller(tmp_path):
    quokka = torch.zeros(3, requires_grad=True)
    save(quokka * 2, path=tmp_path / "graph.gw")
    assert "quokka" in names_in(load(tmp_path / "graph.gw"))


def named(found):
    """The words of a result in which names appear."""
    return str(names_in(found) if isinstance(found, GraphWidget) else found)


def updated_by_wrapper(numbat, level):
    widget = GraphWidget(numbat * 1, names={})
    widget.update(numbat, stacklevel=level)
    return widget


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda numbat, level: GraphWidget(numbat, stacklevel=level),
        updated_by_wrapper,
        lambda numbat, level: GraphWidget(numbat, names={}).diagnose(stacklevel=level),
        lambda numbat, level: compare(numbat, numbat * 1, stacklevel=level).table,
        lambda numbat, level: [
            row.label for row in compare_numerics(numbat, numbat * 1, stacklevel=level).rows
        ],
        lambda numbat, level: record(numbat, stacklevel=level).graph.nodes(data="name"),
        lambda numbat, level: diagnose(numbat, stacklevel=level),
        lambda numbat, level: explain_grad(numbat, stacklevel=level),
        lambda numbat, level: what_if(numbat, stacklevel=level).after,
        lambda numbat, level: contributions(numbat, numbat * 1, stacklevel=level),
    ],
    ids=[
        *("GraphWidget", "update", "widget.diagnose", "compare", "compare_numerics", "record"),
        *("diagnose", "explain_grad", "what_if", "contributions"),
    ],
)
def test_a_function_that_wraps_another_passes_the_frame_whose_names_count(wrapper):
    quokka = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)])  # the second is not used
    wombat = quokka[0](torch.ones(1)).sum()
    assert "quokka" not in named(wrapper(wombat, 1))
    found = named(wrapper(wombat, 2))
    assert "quokka" in found or "wombat" in found
    assert "numbat" not in found


def test_save_takes_the_frame_whose_names_count(tmp_path):
    def kept(numbat, level):
        save(numbat * 2, path=tmp_path / f"{level}.gw", stacklevel=level)
        return names_in(load(tmp_path / f"{level}.gw"))

    quokka = torch.zeros(3, requires_grad=True)
    assert "numbat" in kept(quokka, 1)
    assert "quokka" in kept(quokka, 2)


def test_a_stacklevel_beyond_the_stack_reads_the_outermost_frame():
    quokka = torch.zeros(3, requires_grad=True)
    assert "quokka" not in names_in(GraphWidget(quokka * 2, stacklevel=10_000))
    assert "quokka" in names_in(GraphWidget(quokka * 2, stacklevel=0))  # as warnings.warn does
    with pytest.raises(TypeError, match=r"stacklevel='2', of type str\. Give 1 for"):
        GraphWidget(quokka * 2, stacklevel="2")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x).sum()


class Trainer:
    def __init__(self):
        self.model = Net()
        self.heads = [nn.Linear(1, 1)]
        self.scale = torch.ones((), requires_grad=True)

    def names(self):
        loss = self.model(torch.ones(1, 2)) * self.scale
        return names_in(GraphWidget(loss))


def test_attributes_of_an_object_name_tensors_and_modules():
    trainer = Trainer()
    run = Run(trainer)
    out = trainer.heads[0](trainer.model(torch.ones(1, 2))[None])
    found = set(names_in(GraphWidget(out * trainer.scale)))
    assert found >= {
        "trainer.model.layer.weight",
        "trainer.scale",
        "trainer.heads[0].weight",
    }
    assert "self.model.layer.bias" in trainer.names()
    model = trainer.model
    assert "model.layer.weight" in names_in(GraphWidget(model(torch.ones(1, 2))))
    del trainer, model
    loss = run.trainer.model(torch.ones(1, 2))
    assert "run.trainer.model.layer.weight" in names_in(GraphWidget(loss))


@dataclasses.dataclass
class Run:
    trainer: Trainer


def test_the_closure_of_a_function_names_what_it_holds():
    def make():
        model = Net()
        return lambda: model(torch.ones(1, 2))

    step, other = make(), make()
    assert "model.layer.weight" in names_in(GraphWidget(step()))
    assert "model.layer.weight" not in names_in(GraphWidget(other()))  # the name is taken


def test_looking_at_attributes_runs_no_code_of_the_users_and_is_bounded():
    class Lazy:
        def __init__(self):
            self.rows = [self] * 5_000
            self.w = torch.ones((), requires_grad=True)

        def __getattribute__(self, name):
            raise AssertionError(name)

        @property
        def model(self):
            raise AssertionError

    lazy = object.__new__(Lazy)
    w = torch.ones((), requires_grad=True)
    held = {"w": w, "again": lazy, "rows": [lazy] * 5_000}
    object.__getattribute__(lazy, "__dict__").update(held)
    found = names_among({"lazy": lazy})
    assert found.name_of(w) == "lazy.w"
    many = {f"v{i}": argparse.Namespace(**{f"a{j}": j for j in range(900)}) for i in range(900)}
    assert sum(1 for _ in attributes_in(many.items())) <= 10_000


def test_a_dict_of_a_programs_own_is_not_asked_for():
    def fail(_):
        raise AssertionError

    own = type("Own", (), {"__dict__": property(fail)})()
    assert list(attributes_in([("own", own)])) == []


def test_a_parameter_that_nothing_in_reach_holds_says_that_it_is_one():
    def loss():
        return Net()(torch.ones(1, 2)) * torch.ones((), requires_grad=True)

    with contextlib.closing(GraphWidget(loss())) as widget:
        leaves = [each for each in widget.model["nodes"] if each["kind"] == "leaf"]
        assert sorted(each["label"] for each in leaves) == ["leaf", "parameter", "parameter"]
        widget.selected = leaves[0]["id"]
        assert widget.details["about"].endswith("names=model gives it one.")


def owner_of(variables, module):
    return names_among(variables).place_of(module)


def test_a_module_is_named_by_its_place_in_the_outermost_one():
    encoder = nn.Linear(2, 2)
    model = nn.Sequential(encoder, nn.Linear(2, 1))
    run = argparse.Namespace(nets=nn.ModuleList([model, nn.Linear(2, 2)]))
    names = names_among({"encoder": encoder, "model": model})
    assert names.place_of(encoder) == ("model", "model.0")
    assert names.name_of(encoder.weight) == "model.0.weight"
    assert [path for path in names.modules if path.startswith("encoder")] == []
    around = owner_of({"encoder": encoder, "model": model, "run": run}, encoder)
    assert around == ("run.nets", "run.nets.0.0")
    layers = list(model)
    assert owner_of({"layers": layers, "net": model}, layers[1]) == ("net", "net.1")
    assert read_names({"encoder": encoder, "m": model}, "test").place_of(encoder) == ("m", "m.0")


def test_a_module_that_two_others_share_keeps_its_own_variable():
    trunk = nn.Linear(2, 2)
    actor, critic = nn.Sequential(trunk, nn.Tanh()), nn.Sequential(trunk, nn.ReLU())
    variables = {"actor": actor, "critic": critic, "trunk": trunk}
    assert names_among(variables).name_of(trunk.weight) == "actor.0.weight"
    assert names_among({"trunk": trunk, **variables}).name_of(trunk.weight) == "trunk.weight"


def test_wrappers_of_torch_and_lists_of_named_modules_own_nothing():
    gen, disc = nn.Linear(2, 2), nn.Linear(2, 1)
    nets = nn.ModuleDict({"gen": gen, "disc": disc})
    assert owner_of({"nets": nets, "gen": gen, "disc": disc}, gen) == ("nets", "nets.gen")
    assert owner_of({"gen": gen, "disc": disc, "nets": nets}, gen) == ("gen", "gen")
    parallel = nn.DataParallel(gen)
    assert owner_of({"gen": gen, "parallel": parallel}, gen) == ("gen", "gen")
    blocks = nn.ModuleList([gen, disc])
    assert owner_of({"block": disc, "blocks": blocks}, disc) == ("blocks", "blocks.1")


def test_one_module_under_several_names_has_the_shortest_public_one():
    net = nn.Linear(2, 1)
    assert owner_of({"module": net, "_n": net, "net": net}, net) == ("net", "net")
    trainer = argparse.Namespace(g=net)
    assert owner_of({"trainer": trainer, "generator": net}, net) == ("generator", "generator")


class OwnNeuron:
    def __init__(self, size):
        self.w = [torch.ones((), requires_grad=True) for _ in range(size)]
        self.b = torch.ones((), requires_grad=True)


class OwnLayer:
    def __init__(self, size):
        self.neurons = [OwnNeuron(size), OwnNeuron(size)]


@pytest.mark.parametrize("kind", [list, tuple, lambda each: dict(enumerate(each))])
def test_objects_of_a_container_are_named_by_it(kind):
    layers = kind([OwnLayer(1), OwnLayer(2)])
    found = names_among({"layer": layers[1], "layers": layers, "neuron": layers[1].neurons[0]})
    for i in range(2):
        for k, neuron in enumerate(layers[i].neurons):
            assert found.name_of(neuron.b) == f"layers[{i}].neurons[{k}].b"
            for j, w in enumerate(neuron.w):
                assert found.name_of(w) == f"layers[{i}].neurons[{k}].w[{j}]"
