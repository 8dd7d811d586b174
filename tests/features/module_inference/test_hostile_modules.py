"""A module of any kind is drawn: code that Python cannot read leaves its operations unknown."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gradwalk import GraphWidget, diagnose, load, save, watch
from gradwalk.features.module_inference import infer_modules
from gradwalk.sources import live_drawing


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 1)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lin(x)
        return out


class Plain(Base):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lin(x)
        return out


class Property(Base):
    @property
    def forward(self) -> Any:  # type: ignore[override]
        return self.run


class RaisingDescriptor:
    def __get__(self, module: Any, cls: type | None = None) -> Any:
        if module is None:
            raise RuntimeError("asked for on the class")
        return module.run


class Descriptor(Base):
    forward = RaisingDescriptor()


class CFunction(Base):
    forward = torch.sigmoid

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.lin(x))


class PartialMethod(Base):
    def times(self, x: torch.Tensor, factor: int) -> torch.Tensor:
        return self.run(x) * factor

    forward = functools.partialmethod(times, factor=2)


class Static(Base):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x

    __call__ = Base.run


class RaisingAttributes(Plain):
    def __getattr__(self, name: str) -> Any:
        if name != "lin":
            raise RuntimeError(name)
        return super().__getattr__(name)


class RaisingMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "forward":
            raise RuntimeError(name)
        return super().__getattribute__(name)


class OfRaisingMeta(Plain, metaclass=RaisingMeta):
    pass


class Unhashable(Plain):
    __hash__ = None  # type: ignore[assignment]  # as a dataclass has it

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")


class TensorInClass(Base):
    mean = torch.ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().run(x - self.mean)


class Wrapping:
    """Calls a function, and answers to ``__wrapped__`` in its own way."""

    def __init__(self, function: Callable[..., Any], wraps: str) -> None:
        self.function, self.wraps = function, wraps

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __getattr__(self, name: str) -> Any:
        if self.wraps == "raises":
            raise RuntimeError(name)
        return Wrapping(self.function, self.wraps)  # another one, without end


def on_instance(forward: Callable[[Base], Any]) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module = Base()
        module.forward = forward(module)
        return module

    return make


def without_source() -> nn.Module:
    names: dict[str, Any] = {"Base": Base}
    exec("class NoSource(Base):\n    def forward(self, x): return self.lin(x)", names)
    module: nn.Module = names["NoSource"]()
    return module


def loaded() -> nn.Module:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Plain()), file)
    file.seek(0)
    module: nn.Module = torch.jit.load(file)
    return module


KINDS: dict[str, Callable[[], nn.Module]] = {
    **{cls.__name__: cls for cls in (Property, Descriptor, CFunction, PartialMethod, Static)},
    **{cls.__name__: cls for cls in (RaisingAttributes, OfRaisingMeta, Unhashable)},
    "TensorInClass": TensorInClass,
    "lambda": on_instance(lambda module: lambda x: module.lin(x) * 2),
    "partial": on_instance(lambda module: functools.partial(torch.add, other=module.lin.bias)),
    "raising object": on_instance(lambda module: Wrapping(module.run, "raises")),
    "wrapped without end": on_instance(lambda module: Wrapping(module.run, "itself")),
    "no source": without_source,
    "torch.fx": lambda: torch.fx.symbolic_trace(Plain()),
    "torch.jit.script": lambda: torch.jit.script(Plain()),
    "torch.jit.trace": lambda: torch.jit.trace(Plain(), torch.ones(2, 4)),
    "torch.jit.load": loaded,
}


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("watched", [False, True], ids=["plain", "watched"])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_module_of_any_kind_is_drawn(kind, inside, watched, tmp_path):
    module = KINDS[kind]()
    model = nn.Sequential(module, nn.Tanh(), nn.LazyLinear(2)) if inside else module
    if watched:
        with watch():
            loss = model(torch.ones(2, 4)).mean()
    else:
        loss = model(torch.ones(2, 4)).mean()
    widget = GraphWidget(loss)
    for node in widget.model["nodes"]:
        widget.selected = node["id"]
        assert widget.details["failed"] == []
    assert [each for each in diagnose(loss) if each.kind == "failed"] == []
    save(loss, path=tmp_path / "loss.gw")
    assert len(load(tmp_path / "loss.gw").model["nodes"]) == len(widget.model["nodes"])


def test_a_graph_is_drawn_without_boxes_where_inferring_them_fails(monkeypatch):
    def fails(*_: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(infer_modules, "_inferred", fails)
    monkeypatch.setattr(live_drawing, "BOXES", [fails])
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    widget = GraphWidget(model(torch.ones(2, 4)).sum())
    nodes = widget.model["nodes"]
    assert {node["namespace"] for node in nodes} == {None}
    assert "0.weight" in " ".join(str(node["label"]) for node in nodes)
