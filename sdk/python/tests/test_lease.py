"""The right to run something, in the hands of whoever has it. Each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

import hapax
from conftest import Daemon
from ways import Deaf, Held


def test_a_renewal_that_hears_nothing_does_not_hold_up_the_end(daemon: Daemon, client: hapax.Client) -> None:
    """The connection of the renewals went dead. The end was not said before they had given up, minutes later, when the lease
    had long lapsed."""
    way = Deaf(daemon, ":renew")
    there = hapax.Client(way.url)
    guard = there.guard("billing", lambda message, why: None, ack_wait=6, max_deliveries=5)
    with there.once("payments", "k", effect="irreversible", lease=6) as op:
        assert way.swallowed.wait(30)
        op.result = 1
        ending = time.monotonic()
    assert time.monotonic() - ending < 3
    assert client.explain(op.operation)["state"] == "committed"

    def handler(message: hapax.Message) -> None:
        nonlocal ending
        way.swallowed.clear()
        assert way.swallowed.wait(30)
        ending = time.monotonic()

    assert guard.handle(hapax.Message("orders", 1), handler) == hapax.Settle("ack")
    assert time.monotonic() - ending < 3


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_renewal_that_hears_nothing_is_repeated_before_the_lease_lapses(
    daemon: Daemon, client: hapax.Client, form: str
) -> None:
    way = Deaf(daemon, ":renew", most=1)
    there = hapax.Client(way.url)

    def renewed(operation: str) -> None:
        first = client.explain(operation)["version"]
        until = time.monotonic() + 60
        while (known := client.explain(operation))["version"] == first:
            assert time.monotonic() < until, "it was never renewed"
            time.sleep(0.1)
        # A lapse would be written down too, as a doubt.
        assert known["state"] == "pending", known
        assert way.swallowed.is_set()

    async def story() -> None:
        async with there.once("payments", "k", effect="irreversible", lease=6) as op:
            await asyncio.to_thread(renewed, op.operation)

    if form == "async":
        asyncio.run(story())
    else:
        with there.once("payments", "k", effect="irreversible", lease=6) as op:
            renewed(op.operation)


def cancelled(held: Held, beginning: Coroutine[Any, Any, object]) -> None:
    """Cancels it while an answer to it is under way, and lets the answer come then."""

    async def story() -> None:
        task = asyncio.create_task(beginning)
        await asyncio.to_thread(held.arrived.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held.go.set()

    asyncio.run(story())


def test_an_inverse_whose_worker_is_cancelled_before_it_hears_of_it_is_given_back(
    daemon: Daemon, client: hapax.Client
) -> None:
    """Nothing was undone, and still a person had to be asked about it, once the lease had lapsed."""
    trip = client.group("trip")
    with client.once("bookings", "hotel", turn=trip.turn, compensation=hapax.undone_by("cancel", "h-1")) as op:
        op.result = 1
    held = Held(daemon, ":next")

    async def never(undo: hapax.Undo) -> None:
        raise AssertionError("it was cancelled before it could run")

    there = hapax.Client(held.url).group_by_id(trip.id)
    cancelled(held, there.unwind_async({"cancel": ("unsafe", never)}, lease=6))
    undone: list[object] = []
    plan = trip.unwind({"cancel": ("unsafe", lambda undo: undone.append(undo.input))})
    assert (plan.state, undone) == ("completed", ["h-1"])


def test_a_message_whose_consumer_is_cancelled_before_it_hears_of_it_is_handled_when_it_comes_again(
    daemon: Daemon, client: hapax.Client
) -> None:
    """It was not handled, and still a person had to be asked about it, once its lease had lapsed."""
    held = Held(daemon, "bus:deliver")
    handled: list[int] = []

    async def never(message: hapax.Message) -> None:
        raise AssertionError("it was cancelled before it could run")

    guards = [
        one.guard("billing", lambda message, why: None, ack_wait=6, max_deliveries=50)
        for one in (hapax.Client(held.url), client)
    ]
    cancelled(held, guards[0].handle_async(hapax.Message("orders", 1), never))
    for delivery in range(2, 49):
        told = guards[1].handle(hapax.Message("orders", 1, delivery=delivery), lambda message: handled.append(1))
        if told.what != "nak":
            break
        time.sleep(0.2)
    assert (told, handled) == (hapax.Settle("ack"), [1])


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_handler_that_is_stopped_is_not_waited_for(client: hapax.Client, form: str) -> None:
    """A consumer is shut down in the middle of a handler. Nobody was told, and the next one had to wait for the lease."""
    guard = client.guard("billing", lambda message, why: None, ack_wait=6, max_deliveries=5, effect="idempotent")

    def stopped(message: hapax.Message) -> None:
        raise KeyboardInterrupt

    async def story() -> None:
        started = asyncio.Event()

        async def slow(message: hapax.Message) -> None:
            started.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(guard.handle_async(hapax.Message("orders", 1), slow))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    if form == "async":
        asyncio.run(story())
    else:
        with pytest.raises(KeyboardInterrupt):
            guard.handle(hapax.Message("orders", 1), stopped)
    assert guard.handle(hapax.Message("orders", 1, delivery=2), lambda message: None) == hapax.Settle("ack")


def test_a_block_that_no_thread_can_keep_is_given_back(client: hapax.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system is out of threads, so that nothing runs: what was asked for is not to be held by nobody."""

    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        with pytest.raises(RuntimeError):
            with (op := client.once("payments", "k", effect="irreversible")):
                raise AssertionError("it must not run")
        assert not op.first
    with client.once("payments", "k", effect="irreversible", wait=0) as op:
        assert op.first
