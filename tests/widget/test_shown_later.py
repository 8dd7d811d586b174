"""A pass that the program ran is shown when the program rests, and to a reader before that."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import types
import weakref
from typing import Any

import comm
import ipywidgets
import ipywidgets.embed  # type: ignore[import-untyped]
import pytest
import torch
import traitlets
from comm.base_comm import BaseComm
from IPython.core.interactiveshell import InteractiveShell
from test_notebook import Cells, cells  # noqa: F401  a fixture

from gradwalk import GraphWidget, compare
from gradwalk.hosts import event_loop
from gradwalk.hosts.event_loop import is_heard
from gradwalk.hosts.host import open_widgets
from gradwalk.results import CompareWidget

TOLD = ("_steps", "run", "state", "transport", "_findings", "details", "cursor")


class Channel(BaseComm):
    """The end of a widget's channel that keeps what was sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sent: list[set[str]] = []
        super().__init__(*args, **kwargs)

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        if msg_type == "comm_msg" and data["method"] == "update":
            paths = {path[0] for path in data["buffer_paths"]}
            self.sent.append({*data["state"], *paths})


@pytest.fixture
def heard(monkeypatch):
    """Widgets have channels to somebody; however slow the machine is, no second passes."""
    monkeypatch.setattr(comm, "create_comm", Channel)
    monkeypatch.setattr(event_loop, "time", types.SimpleNamespace(monotonic=lambda: 0.0))


def a_loss():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    return (x * x).exp().sum()


def shown(widget: GraphWidget) -> int:
    """How many of the messages that went out showed a pass."""
    assert isinstance(widget.comm, Channel)
    return sum("_steps" in names or "run" in names for names in widget.comm.sent)


class TestWhoeverReads:
    """In a plain program nobody is called back; every trait is right when it is read."""

    @pytest.mark.parametrize("first", TOLD)
    def test_any_trait_is_right_when_it_is_read_first(self, first):
        loss = a_loss()
        late, prompt = GraphWidget(loss), GraphWidget(loss)
        prompt.observe(lambda _: None)
        late.selected = prompt.selected = 1
        late.diagnose()
        loss.backward()
        assert getattr(late, first) == getattr(prompt, first)
        assert {name: getattr(late, name) for name in TOLD} == {
            name: getattr(prompt, name) for name in TOLD
        }
        assert late.cursor == len(late.steps) == 4
        assert late.get_state() | {"layout": 0} == prompt.get_state() | {"layout": 0}

    @pytest.mark.parametrize("first", ["_steps", "passes", "table", "details", "cursor"])
    def test_so_it_is_of_several_graphs(self, first):
        losses = [a_loss(), a_loss()]
        late, prompt = compare(losses), compare(losses)
        prompt.observe(lambda _: None)
        for loss in losses:
            loss.backward()
        assert isinstance(late, CompareWidget)
        assert getattr(late, first) == getattr(prompt, first)
        assert late.cursor == len(late.steps) == 4
        assert late.passes == prompt.passes

    @pytest.mark.parametrize(
        "look",
        [
            lambda widget: widget.run["ended"],
            lambda widget: widget._shown().source.run["ended"],
            lambda widget: {0: "done"}.get(widget._open().cursor - 4),
        ],
    )
    def test_every_other_way_to_look(self, look):
        loss = a_loss()
        widget = GraphWidget(loss)
        loss.backward()
        assert look(widget) == "done"

    def test_what_the_browser_asks_for_next_is_about_that_pass(self):
        loss = a_loss()
        widget = GraphWidget(loss)
        loss.backward(retain_graph=True)
        widget.set_state({"cursor": 1})
        assert widget.cursor == 1
        loss.backward(retain_graph=True)
        with widget.hold_trait_notifications():
            widget.cursor = 1
        assert widget.cursor == 1
        widget.step()
        assert widget.cursor == 2
        loss.backward()
        widget.step_back()
        assert widget.cursor == 3

    def test_what_an_earlier_of_two_passes_freed(self):
        x = torch.ones(2, requires_grad=True)
        y, z = x.exp().sum(), (x * x).sum()
        widgets = [GraphWidget(y, z), GraphWidget(y, z)]
        widgets[1].observe(lambda _: None)
        y.backward()
        z.backward(retain_graph=True)
        assert widgets[0].state == widgets[1].state
        assert widgets[0].state["freed"]
        assert widgets[0].transport == widgets[1].transport

    def test_backward_after_a_pass_that_freed_is_refused_in_our_words(self):
        loss = a_loss()
        widget = GraphWidget(loss)
        loss.backward()
        with pytest.raises(RuntimeError, match="freed") as raised:
            widget.backward()
        assert "second time" not in str(raised.value).split(".")[0]


class Followed(GraphWidget):
    """A widget of a user's own, which declares what it observes."""

    told = 0

    @traitlets.observe("run")
    def _count(self, _: Any) -> None:
        self.told += 1


class TestWhoeverObserves:
    """An observer of a trait is called while the pass ends, as ever."""

    @pytest.mark.parametrize("names", [*TOLD[:4], "cursor", [*TOLD], traitlets.All])
    @pytest.mark.parametrize("within", [False, True])
    def test_is_told_at_once(self, names, within):
        async def program() -> None:
            run()

        def run() -> None:
            loss = a_loss()
            widget = GraphWidget(loss)
            told: list[str] = []
            widget.observe(lambda change: told.append(change["name"]), names)
            assert not told
            loss.backward()
            assert told

        asyncio.run(program()) if within else run()

    @pytest.mark.parametrize("link", [traitlets.link, traitlets.dlink])
    def test_a_linked_slider_follows(self, link):
        loss = a_loss()
        widget, slider = GraphWidget(loss), ipywidgets.IntSlider(max=10)
        link((widget, "cursor"), (slider, "value"))
        loss.backward()
        assert slider.value == 4

    def test_a_class_of_the_users(self):
        loss = a_loss()
        widget = Followed(loss)
        loss.backward()
        assert widget.told == 1

    def test_of_several_graphs(self):
        losses = [a_loss(), a_loss()]
        widget = compare(losses)
        told: list[str] = []
        widget.observe(lambda change: told.append(change["name"]), "passes")
        losses[1].backward()
        assert told == ["passes"]


@pytest.mark.usefixtures("heard")
class TestWhereALoopRuns:
    """As in a notebook's kernel: after the cell, or wherever else the loop comes to rest."""

    def test_it_is_shown_once_the_loop_rests(self):
        async def program() -> None:
            loss = a_loss()
            widget = GraphWidget(loss)
            for _ in range(100):
                loss.backward(retain_graph=True)
            assert shown(widget) == 0
            await asyncio.sleep(0)
            assert shown(widget) == 1
            loss.backward()
            await asyncio.sleep(0)
            assert shown(widget) == 2

        asyncio.run(program())

    def test_so_it_is_of_several_graphs(self):
        async def program() -> None:
            losses = [a_loss(), a_loss()]
            widget = compare(losses)
            for loss in losses:
                loss.backward()
            assert isinstance(widget.comm, Channel)
            assert not any("passes" in names for names in widget.comm.sent)
            await asyncio.sleep(0)
            assert any("passes" in names for names in widget.comm.sent)

        asyncio.run(program())

    def test_passes_of_other_threads(self):
        async def program() -> None:
            loss = a_loss()
            widget = GraphWidget(loss)
            for count in range(1, 6):
                await asyncio.to_thread(loss.backward, retain_graph=True)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                assert widget.comm.sent
                assert shown(widget) == count

        asyncio.run(program())

    def test_a_program_that_never_rests_is_followed(self):
        async def program() -> None:
            loss = a_loss()
            widget = GraphWidget(loss)
            widget._stage.idle._longest = -1  # seconds
            for _ in range(3):
                loss.backward(retain_graph=True)
            assert shown(widget) == 3  # what waits since it was made is shown with the first

        asyncio.run(program())

    def test_a_loop_that_has_ended_is_not_waited_for(self):
        async def program() -> tuple[torch.Tensor, GraphWidget]:
            loss = a_loss()
            return loss, GraphWidget(loss)

        loss, widget = asyncio.run(program())
        loss.backward()
        assert shown(widget) == 1

    def test_a_widget_that_is_gone_by_then(self):
        async def program() -> None:
            loss = a_loss()
            widgets = [GraphWidget(loss), GraphWidget(loss)]
            loss.backward()
            widgets.pop().close()
            widget = widgets.pop()
            gone = weakref.ref(widget)
            widget.close()
            del widget
            gc.collect()
            assert gone() is None  # what the loop is asked for holds no widget
            await asyncio.sleep(0)

        asyncio.run(program())

    def test_what_goes_wrong_is_told_and_the_loop_goes_on(self, monkeypatch):
        def fails(*_: Any) -> None:
            raise OSError("no picture today")

        async def program() -> None:
            told: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda *each: told.append(each))
            loss = a_loss()
            widget = GraphWidget(loss)
            loss.backward()
            with monkeypatch.context() as patched:
                patched.setattr(GraphWidget, "_show_passes", fails)
                await asyncio.sleep(0)
                assert "no picture today" in widget._fault
            assert not told
            assert widget.cursor == len(widget.steps) == 4

        asyncio.run(program())

    def test_looking_changes_no_mode_of_the_loops_thread(self):
        async def program() -> None:
            loss = a_loss()
            widget = GraphWidget(loss)
            loss.backward()
            with torch.no_grad():
                await asyncio.sleep(0)
                assert not torch.is_grad_enabled()
            assert shown(widget) == 1
            assert torch.is_grad_enabled()

        asyncio.run(program())


@pytest.mark.usefixtures("heard")
class TestWithoutALoop:
    def test_whoever_listens_is_told_at_once(self):
        loss = a_loss()
        widget = GraphWidget(loss)
        loss.backward(retain_graph=True)
        assert shown(widget) == 1
        done = threading.Thread(target=loss.backward)
        done.start()
        done.join()
        assert shown(widget) == 2


@pytest.mark.usefixtures("heard")
class TestInIPython:
    def test_the_end_of_a_cell_shows_it_although_the_loop_has_not_rested(self, cells):  # noqa: F811
        async def kernel() -> None:
            cells.run("a", "widget = GraphWidget(h); sent = widget.comm.sent\nbefore = len(sent)")
            assert cells["before"] == 0
            assert ["model" in names for names in cells["sent"]] == [True]
            cells.run("b", "for _ in range(9): h.backward(retain_graph=True)\nbefore = len(sent)")
            assert cells["before"] == 1
            assert shown(cells["widget"]) == 1
            cells.run("c", "for _ in range(9): h.backward(retain_graph=True)\nwidget.cursor")
            assert shown(cells["widget"]) == 2
            await asyncio.sleep(0)
            assert shown(cells["widget"]) == 2

        asyncio.run(kernel())

    def test_so_does_the_end_of_one_that_fails(self, cells):  # noqa: F811
        async def kernel() -> None:
            cells.run("a", "widget = GraphWidget(h)")
            cells.run("b", "h.backward(); 1 / 0", fails=True)
            assert shown(cells["widget"]) == 1

        asyncio.run(kernel())

    def test_without_a_loop_too(self, cells: Cells):  # noqa: F811
        cells.run("a", "widget = GraphWidget(h)")
        cells.run("b", "h.backward()")
        assert shown(cells["widget"]) >= 1
        assert cells["widget"].cursor == 3
        assert isinstance(cells.shell, InteractiveShell)


def test_only_a_channel_that_drops_everything_is_not_heard():
    assert not is_heard(None)
    assert not is_heard(GraphWidget(a_loss()).comm)
    assert type(GraphWidget(a_loss()).comm) is sys.modules["comm"].DummyComm
    assert is_heard(Channel())


class Block(torch.nn.Module):
    """Operations of its own, a buffer, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.layer(x) ** 2) * self.scale


def a_model(blocks: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(blocks)))
    x = torch.randn(2, 4)
    return model, x, model(x).pow(2).mean()


ASKS = {
    "model_id": lambda widget: widget.model_id,
    "display": lambda widget: widget._repr_mimebundle_(),
    "get_state": lambda widget: widget.get_state(),
    "send_state": lambda widget: widget.send_state(),
    "a box": lambda widget: ipywidgets.VBox([widget]).get_state(),
    # With the state of this one: else of every widget that other tests have left.
    "a page": lambda widget: ipywidgets.embed.embed_snippet(
        [widget], state=ipywidgets.embed.dependency_state([widget], drop_defaults=False)
    ),
    "a trait": lambda widget: widget.model,
    "another": lambda widget: widget.transport,
    "the cursor": lambda widget: widget.cursor,
}


@pytest.mark.usefixtures("heard")
class TestMade:
    """Its channel is open as soon as it is made; what takes time follows once somebody asks."""

    @pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
    def test_whoever_asks_gets_all_of_it(self, ask):
        async def program() -> None:
            widget = GraphWidget(a_loss())
            assert widget.comm is not None
            assert open_widgets()[widget.comm.comm_id] is widget
            assert not any("model" in names for names in widget.comm.sent)
            ask(widget)
            sent = set().union(*widget.comm.sent)
            assert sent >= {"model", "_dtypes", "state", "transport"}
            before = len(widget.comm.sent)
            await asyncio.sleep(0)
            assert len(widget.comm.sent) == before

        asyncio.run(program())

    def test_nobody_need_ask(self):
        async def program() -> None:
            widget = GraphWidget(a_loss())
            await asyncio.sleep(0)
            assert "model" in set().union(*widget.comm.sent)

        asyncio.run(program())
        assert "model" in set().union(*GraphWidget(a_loss()).comm.sent)  # nothing calls back here

    def test_a_page_has_the_graph(self):
        async def program() -> None:
            widget, other = GraphWidget(a_loss()), GraphWidget(a_loss())
            assert widget.model == other.model
            page = ipywidgets.embed.embed_data([other], drop_defaults=False)
            state = page["manager_state"]["state"][other.comm.comm_id]
            assert any(each["path"] == ["model"] for each in state["buffers"])

        asyncio.run(program())

    @pytest.mark.parametrize("blocks", [2, 40], ids=["small", "large"])
    def test_what_is_worked_out_late_is_as_when_it_was_made(self, blocks):
        def drawn(widget: GraphWidget) -> dict[str, Any]:
            about = ["model", "_dtypes", "_openable", "_values", "_update", "constants"]
            return widget.get_state(about)

        async def program() -> None:
            model, x, loss = a_model(blocks)
            early, late = (GraphWidget(loss, names={"model": model, "x": x}) for _ in range(2))
            before, graph = drawn(early), early.model
            assert any(node["value"] is not None for node in graph["nodes"])
            loss.backward()  # frees what was saved
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(0)  # as an optimizer does
                    parameter.data = parameter.data + 1
            x.fill_(7)
            model = x = loss = parameter = None
            gc.collect()
            assert drawn(late) == before
            assert late.model == graph
            assert late.state == early.state
            assert late.run == early.run

        asyncio.run(program())

    @pytest.mark.parametrize(
        "change",
        [
            torch.nn.Module.half,
            lambda model: [setattr(each, "data", torch.ones(7)) for each in model.parameters()],
            lambda model: [model.eval(), setattr(model[0], "layer", torch.nn.Linear(9, 9))],
            lambda model: [each.add_(1) for each in model.buffers()],
        ],
        ids=["half", "another shape", "another layer", "another buffer"],
    )
    def test_so_it_is_where_the_model_was_changed_before_anybody_looked(self, change):
        async def program() -> None:
            model, x, loss = a_model(2)
            early, late = (GraphWidget(loss, names={"model": model, "x": x}) for _ in range(2))
            before = early.get_state(["model", "_dtypes", "_values", "constants"])
            with torch.no_grad():
                change(model)
            assert late.get_state(["model", "_dtypes", "_values", "constants"]) == before

        asyncio.run(program())

    def test_what_is_not_looked_at_dies_with_its_graph(self):
        async def program() -> None:
            model, _, loss = a_model(2)
            gone = [weakref.ref(each) for each in (model, loss, model[0].layer.weight)]
            widget = GraphWidget(loss)
            del model, loss
            gc.collect()
            assert [ref() is None for ref in gone] == [True, True, False]
            widget.close()
            gc.collect()
            assert not any(ref() for ref in gone)
            await asyncio.sleep(0)

        asyncio.run(program())
