"""gradwalk's own backward: where torch's works it works, alone, and every `.grad` comes back."""

from __future__ import annotations

import gc
import re
import sys
import threading
import warnings
from typing import ClassVar

import pytest
import torch
from engine import all_same, copies, same
from fresh import fresh
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo import compiled_autograd
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gradwalk import GraphWidget, Recording, compare, diagnose, explain_grad, record
from gradwalk.backward.grads import Timeline
from gradwalk.files.disk import write_file
from gradwalk.graph.engine import carried, carry
from gradwalk.subject import live

REFUSED = r"Do it after that pass"


def squares(count=3):
    x = torch.full((count,), 2.0, requires_grad=True)
    return x, (x * x).sum()


class TestMovingFromAHook:
    """The engine is still adding to every `.grad`, so nothing moves and nothing hangs."""

    MOVES: ClassVar = {
        "step": lambda widget: widget.step(1),
        "step_back": lambda widget: widget.step_back(),
        "cursor": lambda widget: setattr(widget, "cursor", 0),
        "run_to": lambda widget: widget.run_to("x"),
        "reset": lambda widget: widget.reset(),
        "backward": lambda widget: widget.backward(),
    }

    @pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
    @pytest.mark.parametrize("kind", ["tensor", "node", "post-accumulate"])
    @pytest.mark.parametrize("whose", ["its own", "the user's"])
    @pytest.mark.parametrize("earlier", [False, True])
    def test_is_refused(self, move, kind, whose, earlier):
        x, y = squares()
        widget = GraphWidget(y, names={"x": x, "y": y})
        if earlier:
            widget.backward()
            widget.step_back()
        before = copies([x.grad])
        on = {
            "tensor": lambda: y.register_hook(lambda _: move(widget)),
            "node": lambda: y.grad_fn.register_hook(lambda *_: move(widget)),
            "post-accumulate": lambda: x.register_post_accumulate_grad_hook(lambda _: move(widget)),
        }
        handle = on[kind]()
        start = widget.backward if whose == "its own" else lambda: y.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match=REFUSED):
            start()
        handle.remove()
        if whose == "its own":
            assert all_same([x.grad], before)
        x.grad = None
        widget.backward()
        assert widget.cursor == len(widget.steps) == 3
        widget.reset()
        assert x.grad is None
        widget.close()

    def test_is_refused_on_a_thread_that_the_hook_waits_for(self):
        x, y = squares()
        widget = GraphWidget(y)
        raised = []

        def step():
            try:
                widget.step()
            except RuntimeError as error:
                raised.append(str(error))

        def wait_for_another_thread(_):
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()

        y.register_hook(wait_for_another_thread)
        widget.backward()
        assert len(raised) == 1
        assert "by another thread" in raised[0]
        assert widget.cursor == len(widget.steps) == 3
        assert x.grad is not None

    def test_looking_is_not_refused(self):
        _, y = squares()
        widget = GraphWidget(y)
        seen = []
        y.register_hook(lambda _: seen.append((widget.state["runs"], widget.cursor, widget.steps)))
        widget.backward()
        assert seen == [(0, 0, [])]

    def test_of_a_recording_is_refused(self):
        x, y = squares()
        recording = record(y)
        y.register_hook(lambda _: recording.reset())
        with pytest.raises(RuntimeError, match=REFUSED):
            y.backward()
        assert recording.cursor == 3
        assert x.grad is not None

    def test_of_compared_graphs_is_refused(self):
        x, y = squares()
        widget = compare({"y": y, "z": x.exp().sum()})
        handle = y.register_hook(lambda _: widget.step())
        with pytest.raises(RuntimeError, match=REFUSED):
            widget.backward()
        handle.remove()
        assert x.grad is None
        widget.backward()
        widget.reset()
        assert x.grad is None

    def test_from_the_browser_is_refused_and_the_browser_is_told(self, monkeypatch):
        _, y = squares()
        widget = GraphWidget(y)
        widget.backward()
        sent = []

        def move_in_the_browser(_):
            monkeypatch.setattr(widget, "_send", lambda data, **_: sent.append(data))
            with pytest.raises(RuntimeError, match=REFUSED):
                widget.set_state({"cursor": 1})
            monkeypatch.undo()

        y.register_hook(move_in_the_browser)
        widget.backward()
        told = [data["state"]["cursor"] for data in sent if "cursor" in data.get("state", {})]
        assert told[-1] == 3 == widget.cursor

    @pytest.mark.parametrize("move", [MOVES["step"], MOVES["run_to"], MOVES["backward"]])
    def test_closing_meanwhile_raises_nowhere(self, move):
        x, y = squares()
        widget = GraphWidget(y, names={"x": x, "y": y})
        y.register_hook(lambda _: widget.close())
        move(widget)
        assert torch.equal(x.grad, torch.full((3,), 4.0))
        assert not y.grad_fn._raw_saved_self if hasattr(y.grad_fn, "_raw_saved_self") else True


class Interrupts:
    """Raises KeyboardInterrupt where grad mode has just been switched off, the n-th time."""

    def __init__(self, number):
        self.number = number
        self.raised = False

    def __call__(self, _, event, called):
        if event == "c_return" and getattr(called, "__name__", "") == "_set_grad_enabled":
            self.number -= 1
            if self.number == 0 and not torch.is_grad_enabled():
                self.raised = True
                raise KeyboardInterrupt


ACTIONS = {
    "step": lambda widget, _: widget.step(),
    "select": lambda widget, _: setattr(widget, "selected", 2),
    "read": lambda widget, _: widget.details,
    "to_html": lambda widget, _: widget.to_html(),
    "diagnose": lambda widget, _: diagnose(widget),
    "compare": lambda _, y: compare([y, y * 2]).close(),
    "explain": lambda _, y: explain_grad(torch.ones(2), y),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_an_interrupt_leaves_grad_mode_as_it_was(action):
    interrupted = 0
    for number in range(1, 60):
        x = torch.ones(3, requires_grad=True)
        y = (x * x).relu().sum()
        widget = GraphWidget(y)
        widget.backward()
        widget.step_back()
        widget.selected = 1
        interrupts = Interrupts(number)
        sys.setprofile(interrupts)
        try:
            action(widget, y)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.setprofile(None)
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        # Nothing is stuck or half done either.
        widget.step(99)
        assert torch.equal(x.grad, torch.full((3,), 2.0))
        widget.close()
        assert enabled, number
        if interrupts.number > 0:
            break
    assert interrupted


def test_an_interrupt_leaves_no_temporary_file(tmp_path):
    target = tmp_path / "there.txt"
    for number in range(1, 1000):
        target.write_text("before")
        left = number

        def interrupt(_, event, __):
            nonlocal left
            if event in ("call", "c_return"):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            with pytest.warns(UserWarning, match="has replaced"):
                write_file(target, "after", "test")
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert [each.name for each in tmp_path.iterdir()] == ["there.txt"], number
        assert target.read_text() in ("before", "after")
        if left > 0:
            break
    assert left > 0


def dense_on(layout):
    def program():
        a = getattr(torch.eye(3), layout)().requires_grad_()
        b = torch.randn(3, 2, requires_grad=True)
        return [a, b], (a @ b).sum()

    return program


def reentrant(part):
    def program():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        x = torch.ones(1, 2, requires_grad=True)
        return [x, *model.parameters()], part(model, x).sum()

    return program


def inside_and_out(model, x):
    return model(checkpoint(lambda z: model(z).tanh(), x, use_reentrant=True))


def plain():
    x = torch.ones(3, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    return [x, b], (x * x + b).sum()


ODD = {
    "dense": plain,
    "dense on COO": dense_on("to_sparse"),
    "dense on CSR": dense_on("to_sparse_csr"),
    "reentrant, a module": reentrant(lambda m, x: checkpoint(m, x, use_reentrant=True)),
    "reentrant, a lambda": reentrant(
        lambda m, x: checkpoint(lambda z: m(z).sin(), x, use_reentrant=True)
    ),
    "reentrant, a sequence": reentrant(
        lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=True)
    ),
    "reentrant, inside and out": reentrant(inside_and_out),
}


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("name", ODD)
@given(moves=st.lists(st.integers(0, 20), max_size=6), inference=st.booleans(), full=st.booleans())
def test_every_grad_comes_back_or_the_widget_says_why_not(name, moves, inference, full):
    def begun():
        torch.manual_seed(0)
        leaves, output = ODD[name]()
        for leaf in leaves if full and "dense on" not in name else ():
            leaf.grad = torch.ones_like(leaf)
        return leaves, output

    twins, twin_output = begun()
    leaves, output = begun()
    before = copies([leaf.grad for leaf in leaves])
    widget = GraphWidget(output)
    with torch.inference_mode(inference):
        try:
            twin_output.backward()
        except RuntimeError as error:  # torch's sparse and checkpoint refuse inference mode
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                widget.backward()
            assert all_same([leaf.grad for leaf in leaves], before)
            return
        widget.backward()
    after = copies([leaf.grad for leaf in leaves])
    objects = [leaf.grad for leaf in leaves]
    assert all_same([twin.grad for twin in twins], after)

    for move in moves:
        widget.cursor = min(move, len(widget.steps))
        if not widget.transport["owned"]:
            assert "which torch cannot set" in widget.transport["note"]
            assert all(leaf.grad is grad for leaf, grad in zip(leaves, objects, strict=True))
        elif widget.cursor == 0:
            assert all_same([leaf.grad for leaf in leaves], before)
    widget.cursor = len(widget.steps)
    assert all_same([leaf.grad for leaf in leaves], after)
    assert all(leaf.grad is grad for leaf, grad in zip(leaves, objects, strict=True))
    widget.close()


def test_the_next_backward_after_a_reset_is_like_the_first():
    leaves, output = ODD["reentrant, a lambda"]()
    widget = GraphWidget(output)
    widget.backward()
    first = copies([leaf.grad for leaf in leaves])
    widget.reset()
    assert all(leaf.grad is None for leaf in leaves)
    widget.backward()
    assert all_same([leaf.grad for leaf in leaves], first)


def test_a_refresh_that_fails_leaves_steps_whole(monkeypatch):
    def fail(*_):
        raise ValueError("made to fail")

    x, y = squares()
    widget = GraphWidget(y, names={"x": x, "y": y})
    widget.selected = 1
    monkeypatch.setattr(live.Live, "details", fail)
    widget.step(2)
    assert (widget.cursor, x.grad) == (2, None)
    assert "made to fail" in widget._fault
    widget.step()
    assert widget.cursor == 3
    assert torch.equal(x.grad, torch.full((3,), 4.0))
    monkeypatch.undo()
    assert widget.details["op"] == "MulBackward0"
    assert widget._fault is None


def test_a_move_that_fails_halfway_moves_nothing(monkeypatch):
    a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
    widget = GraphWidget(a * b)
    widget.backward()
    grads = a.grad, b.grad
    went, plain = [], Timeline.go

    def fail_the_second_time(timeline, index):
        went.append(timeline)
        if len(went) == 2:
            raise MemoryError("made to fail")
        plain(timeline, index)

    monkeypatch.setattr(Timeline, "go", fail_the_second_time)
    widget.reset()
    assert (a.grad, b.grad) == grads
    assert not widget.transport["owned"]
    assert "made to fail" in widget.transport["note"]


class TestCompiledCodeThatRunsOnce:
    @pytest.fixture
    def program(self):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: (x.sin().exp() * x.cos()).sum(), backend="aot_eager")
        x = torch.randn(8, requires_grad=True)
        compiled(x).backward()
        expected, x.grad = x.grad, None
        return compiled, x, expected

    def test_is_stepped_through(self, program):
        compiled, x, expected = program
        widget = GraphWidget(compiled(x))
        widget.step()
        assert x.grad is None
        widget.step()
        assert torch.equal(x.grad, expected)
        assert "freed the saved tensors" in widget.transport["note"]
        assert "can run only once" in widget.transport["blocked"]
        with pytest.raises(RuntimeError, match="can run only once"):
            widget.backward()
        assert torch.equal(x.grad, expected)

    def test_is_recorded(self, program):
        compiled, x, expected = program
        recording = record(compiled(x) * 2)
        assert torch.equal(x.grad, expected * 2)
        recording.reset()
        assert x.grad is None

    def test_is_not_run_otherwise_than_asked(self, program):
        compiled, x, _ = program
        widget = GraphWidget(compiled(x))
        with pytest.raises(RuntimeError, match="donated buffers"):
            widget.backward(retain_graph=True)
        assert x.grad is None

    def test_keeps_its_graph_where_it_can(self):
        torch._dynamo.reset()
        x = torch.randn(8, requires_grad=True)
        y = torch.compile(lambda x: (x.sin().exp() * x.cos()).sum(), backend="aot_eager")(x)
        widget = GraphWidget(y)
        widget.backward()
        assert widget.transport == {"owned": True, "note": None, "blocked": None}


class TestWhereItStarts:
    def test_a_complex_number_is_refused_as_torch_does(self):
        z = torch.tensor(1 + 2j, requires_grad=True)
        y = z * z
        with pytest.raises(RuntimeError, match="real scalar outputs"):
            y.backward(retain_graph=True)
        widget = GraphWidget(y, names={"y": y})
        assert "y is a complex number" in widget.transport["blocked"]
        for start in (widget.backward, widget.step, lambda: record(y)):
            with pytest.raises(ValueError, match="is a complex number, of dtype"):
                start()
        assert z.grad is None
        one = torch.ones((), dtype=torch.complex64)
        y.backward(one, retain_graph=True)
        expected, z.grad = z.grad, None
        widget.backward(one)
        assert torch.equal(z.grad, expected)

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_a_nested_output_says_what_to_give(self, layout):
        parts = [torch.ones(2), torch.ones(3)]
        x = torch.nested.nested_tensor(parts, requires_grad=True, layout=layout)
        y = x * 2
        widget = GraphWidget(y, names={"y": y})
        assert "torch.ones_like(y)" in widget.transport["blocked"]
        with pytest.raises(ValueError, match="nested tensor"):
            widget.backward()
        widget.backward(torch.ones_like(y))
        assert all(torch.equal(grad, torch.full_like(grad, 2)) for grad in x.grad.unbind())

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    @pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
    @pytest.mark.parametrize("alive", [True, False])
    def test_one_number_of_any_kind(self, dtype, shape, alive):
        x = torch.full(shape, 3.0, dtype=dtype, requires_grad=True)
        (x * x).backward()
        expected, x.grad = x.grad, None
        y = x * x
        widget = GraphWidget(y)
        if not alive:
            del y
        widget.backward()
        assert same(x.grad, expected)
        (step, *_) = Recording(widget._behind.recording).steps
        assert same(step.contributions[0].grad, torch.ones(shape, dtype=dtype))

    def test_an_output_that_was_changed_in_place_is_the_one_that_was_drawn(self):
        x = torch.tensor(3.0, requires_grad=True)
        y = x * 2
        widget = GraphWidget(y)
        y.mul_(5)
        widget.backward()
        assert x.grad.item() == 2.0

    def test_a_subclass(self):
        found = fresh("""
            import torch
            import torch.distributed as dist
            from torch.distributed.tensor import Replicate, Shard, distribute_tensor
            from torch.distributed.tensor import init_device_mesh
            from torch.testing._internal.distributed.fake_pg import FakeStore
            from gradwalk import GraphWidget, record

            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
            mesh = init_device_mesh("cpu", (1,))
            w = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]).requires_grad_()
            x = distribute_tensor(torch.randn(2, 4), mesh, [Replicate()])
            loss = (x @ w.t()).sum()
            loss.backward(retain_graph=True)
            expected, w.grad = w.grad.to_local(), None
            widget = GraphWidget(loss)
            widget.step(99)
            print(torch.equal(w.grad.to_local(), expected), widget.transport["owned"])
            grad = w.grad
            widget.reset()
            print(w.grad is None)
            recording = record(loss)
            print(torch.equal(w.grad.to_local(), expected))
            dist.destroy_process_group()
        """).split()
        assert found == ["True"] * 4

    def test_one_number_imports_no_algebra(self):
        found = fresh("""
            import sys
            import torch
            from gradwalk import GraphWidget, record

            x = torch.tensor([3.0], requires_grad=True)
            widget = GraphWidget(x * x + x)
            widget.step(1)
            widget.step(9)
            record(x * 2)
            print("sympy" in sys.modules)
        """).split()
        assert found == ["False"]


class TestWhosePassItIs:
    def test_a_pass_of_another_thread_that_begins_first_is_not_taken_for_it(self):
        x, y = squares()
        widget = GraphWidget(y)
        others = []

        def run_others(grad):
            if grad.item() != 1.0 or others:
                return
            for k in range(2, 6):
                others.append(k)
                seed = torch.tensor(float(k))
                thread = threading.Thread(target=y.backward, args=(seed, True))
                thread.start()
                thread.join()

        y.register_hook(run_others)
        widget.backward()
        shown = widget._behind.recording
        assert widget.state["runs"] == 5
        assert shown.run.grads is not None
        steps = Recording(shown).steps
        assert [step.node for step in steps] == [0, 1, 2]
        assert steps[0].grad_outputs[0].item() == 1.0
        # Theirs came before its own step on x, so they belong to what it found there.
        assert torch.equal(x.grad, torch.full((3,), 4.0 * (1 + 2 + 3 + 4 + 5)))

    def test_threads_that_share_a_graph(self):
        x = torch.ones(50, requires_grad=True)
        y = x
        for _ in range(30):
            y = y.sin() * 2
        loss = y.sum()
        (expected,) = torch.autograd.grad(loss, x, retain_graph=True)
        for _ in range(10):
            x.grad = None
            widget = GraphWidget(loss)
            threads = [
                threading.Thread(target=loss.backward, kwargs={"retain_graph": True})
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            widget.backward()
            for thread in threads:
                thread.join()
            assert widget.state["runs"] == 5
            assert widget._fault is None
            assert torch.allclose(x.grad, expected * 5)
            assert len(widget.steps) == 62
            widget.close()


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_autograd_is_left_alone(fullgraph):
    torch._dynamo.reset()
    w = torch.randn(4, 4, requires_grad=True)
    x = torch.randn(2, 4)
    (x @ w).relu().sum().backward()
    expected, w.grad = w.grad, None
    loss = (x @ w).relu().sum()
    widget = GraphWidget(loss)
    compiler = torch.compile(backend="eager", fullgraph=fullgraph)
    with warnings.catch_warnings(record=True) as warned, compiled_autograd._enable(compiler):
        warnings.simplefilter("always")
        loss.backward(retain_graph=True)
    assert not [each for each in warned if "graph_task" in str(each.message)]
    assert torch.equal(w.grad, expected)
    assert widget._fault is None
    assert "compiled autograd runs it as one program" in widget.state["note"]
    w.grad = None
    with warnings.catch_warnings(), compiled_autograd._enable(compiler):
        warnings.simplefilter("ignore")  # torch's own
        widget.backward()
    assert torch.equal(w.grad, expected)
    assert not widget.transport["owned"]
    assert "as one program" in widget.transport["note"]
    widget.reset()
    assert torch.equal(w.grad, expected)


def test_what_follows_the_engine_to_its_threads_is_neither_freed_nor_kept():
    class Carried:
        pass

    value = Carried()
    before = sys.getrefcount(value)
    for _ in range(3):
        carry("what the tests carry", value)
        assert sys.getrefcount(value) == before + 1
        assert carried("what the tests carry") is value
        carry("what the tests carry", None)
        assert sys.getrefcount(value) == before


def test_passes_on_other_devices_leave_their_runs_alone():
    for _ in range(5):
        x = torch.ones(3, device="meta", requires_grad=True)
        recording = record((x * 2).sum())
        gc.collect()
        assert len(recording.steps) == 3
        assert recording.cursor == 3
