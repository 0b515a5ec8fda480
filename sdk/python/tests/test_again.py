"""Blocks that are entered again, or twice at once. Each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import hapax
from conftest import Daemon
from ways import Losing


Enter = Callable[[Any], Any]


def plain(block: Any) -> Any:
    """A block as it is, in the form that both kinds have here."""

    @contextlib.asynccontextmanager
    async def entered() -> AsyncIterator[Any]:
        with block as op:
            yield op

    return entered()


def as_it_is(block: Any) -> Any:
    return block


both = pytest.mark.parametrize("enter", [plain, as_it_is], ids=["sync", "async"])


@both
def test_a_block_that_is_entered_again_runs_nothing_again(client: hapax.Client, enter: Enter) -> None:
    ran: list[int] = []

    async def story() -> None:
        op = client.once("payments", "k", effect="irreversible")
        for turn in range(3):
            async with enter(op):
                assert op.first == (turn == 0) and op.replayed == (turn > 0)
                if op.first:
                    ran.append(1)
                    op.result = {"charge": "ch_1"}
                else:
                    assert op.result == {"charge": "ch_1"}
            assert op.result == {"charge": "ch_1"}

    asyncio.run(story())
    assert ran == [1]


@both
def test_a_retry_after_a_lost_answer_finds_what_was_recorded(daemon: Daemon, enter: Enter) -> None:
    """The end arrives, and its answer is lost: it is not known to be recorded. Whoever enters the same block again, to find out,
    has to be told that it was, and not to run it a second time."""
    way = Losing(daemon)
    client = hapax.Client(way.url)
    ran: list[int] = []

    async def story() -> None:
        op = client.once("payments", "k", effect="irreversible")
        for _ in range(3):
            try:
                async with enter(op):
                    if op.first:
                        ran.append(1)
                        op.result = "paid"
                        way.lost = True
                break
            except hapax.NotRecorded:
                way.lost = False
        assert op.replayed and op.result == "paid"

    asyncio.run(story())
    assert ran == [1]


@both
def test_a_block_that_could_not_be_entered_again_is_nobodys(daemon: Daemon, client: hapax.Client, enter: Enter) -> None:
    async def story() -> None:
        op = client.once("payments", "k", effect="irreversible")
        assert not op.first and not op.replayed
        for unknown in ("operation", "attempt"):
            with pytest.raises(hapax.Misused, match="enter"):
                getattr(op, unknown)
        async with enter(op):
            op.result = 1
        daemon.kill()
        with pytest.raises(hapax.Unreachable):
            async with enter(op):
                raise AssertionError("it must not run")
        assert not op.first and not op.replayed and op.result is None

    asyncio.run(story())


@both
def test_an_activity_that_is_made_again_does_not_give_its_earlier_answer(client: hapax.Client, enter: Enter) -> None:
    async def story() -> None:
        call = client.activity("run", "pay", "stripe", effect="idempotent")
        with pytest.raises(hapax.Retryable):
            async with enter(call):
                call.answer = hapax.Answer(503, "busy")
                raise hapax.Retryable
        async with enter(call):
            assert call.first and call.answer is None
            call.answer = hapax.Answer(200, "done")
        async with enter(call):
            assert not call.first and call.answer == hapax.Answer(200, "done")

    asyncio.run(story())


@both
def test_a_block_in_use_is_not_entered_by_another(client: hapax.Client, enter: Enter) -> None:
    """Two threads share a block by mistake. What the second was told took the place of what the first had been told, whose
    effect then was not recorded."""

    async def story() -> None:
        op = client.once("payments", "k", effect="irreversible", wait=0)
        async with enter(op):
            with pytest.raises(hapax.Misused, match="in use"):
                async with enter(op):
                    raise AssertionError("it must not run")
            assert op.first
            op.result = 1
        async with enter(op):
            assert op.replayed and op.result == 1

    asyncio.run(story())


@both
def test_the_first_caller_gets_what_all_others_will_get(client: hapax.Client, enter: Enter) -> None:
    """JSON knows no tuples, and names only by text. A program that was happy with what it had computed itself fell over the
    first time that it was given the recorded answer."""

    async def story() -> None:
        for turn in range(2):
            async with enter(client.once("payments", "k")) as op:
                assert op.first == (turn == 0)
                if op.first:
                    op.result = {"lines": (1, 2), 7: "seven"}
            assert op.result == {"lines": [1, 2], "7": "seven"}

    asyncio.run(story())


def test_whoever_wants_to_wait_is_let_wait_longer_than_an_answer_may_take(daemon: Daemon, client: hapax.Client) -> None:
    with client.once("payments", "k", effect="irreversible") as op:
        got: list[Any] = []

        def wait() -> None:
            with hapax.Client(daemon.url, timeout=0.2).once("payments", "k", effect="irreversible", wait=30) as again:
                got.append(again.result)

        waiting = threading.Thread(target=wait)
        waiting.start()
        # Four tries of 0.2 s and the pauses between them are over long before.
        waiting.join(4)
        assert waiting.is_alive(), "it gave up"
        op.result = "paid"
    waiting.join(30)
    assert got == ["paid"]
