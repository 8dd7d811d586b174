from __future__ import annotations

import asyncio
import signal
import threading

from gradwalk.hosts.event_loop import MainThread


def seen_by(action):
    """Run an action from another thread while the loop of the main thread runs."""
    before = signal.getsignal(signal.SIGINT)

    async def main():
        target = MainThread()
        await asyncio.to_thread(target.call, action)

    asyncio.run(main())
    assert signal.getsignal(signal.SIGINT) is before


def test_a_call_from_another_thread_runs_in_the_main_one_and_is_waited_for():
    threads = []
    seen_by(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.main_thread()]


def test_an_interrupt_ends_the_call_and_not_the_loop():
    def interrupted():
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("goes on after an interrupt")

    seen_by(interrupted)


def test_without_a_loop_it_is_called_at_once():
    calls = []
    MainThread().call(lambda: calls.append(1))
    assert calls == [1]


def test_in_a_session_with_a_thread_of_its_own_it_is_called_at_once():
    calls = []

    async def session():
        MainThread().call(lambda: calls.append(threading.current_thread()))

    thread = threading.Thread(target=lambda: asyncio.run(session()), daemon=True)
    thread.start()
    thread.join(100)
    assert calls == [thread]
