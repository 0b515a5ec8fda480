"""Workers that are forked from a process which used a client already, as servers with a preloaded program do it. Each test is
named after the accident it prevents."""

from __future__ import annotations

import asyncio
import functools
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import hapax
from conftest import Daemon
from ways import Way

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")


class Forked:
    """A child that does one thing and ends. It never comes back into the test."""

    def __init__(self, task: Callable[[], object]) -> None:
        self._said, says = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(says)
            return
        # One that hangs is to be told from one that fails.
        signal.alarm(60)
        said = ""
        try:
            task()
        except BaseException:
            said = traceback.format_exc()
        finally:
            os.write(says, said.encode()[-4000:])
            os._exit(0)

    def fault(self) -> str:
        """What it failed with, or nothing."""
        with os.fdopen(self._said) as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return said or ("" if status == 0 else f"it ended with {status}")


def work(client: hapax.Client, name: str, start: float = 0.0, seconds: float = 0.5) -> None:
    time.sleep(max(0.0, start - time.monotonic()))
    until, number = time.monotonic() + seconds, 0
    while number < 3 or time.monotonic() < until:
        number += 1
        key = f"{name}-{number}"
        for first in (True, False):
            with client.once("payments", key, request=key, effect="irreversible") as op:
                assert op.first == first, f"{key} was taken for another"
                op.result = key
            assert op.result == key


def test_a_forked_worker_gets_its_own_answers(client: hapax.Client) -> None:
    """The client is made and used before the workers are forked. They all spoke on its one connection, and each read whatever
    answer came next: the right to run what another had asked for, and its results."""
    for turn in range(4):
        work(client, f"before-{turn}", seconds=0)
        start = time.monotonic() + 0.1
        tasks = [functools.partial(work, client, f"{name}-{turn}", start) for name in ("left", "right", "parent")]
        workers = [Forked(task) for task in tasks[:2]]
        fault = ""
        try:
            tasks[2]()
        except (AssertionError, hapax.HapaxError) as error:
            fault = repr(error)
        assert [fault, *(worker.fault() for worker in workers)] == ["", "", ""]


def test_a_forked_worker_leaves_the_connection_of_its_parent_alone(daemon: Daemon) -> None:
    way = Way(daemon)
    client = hapax.Client(way.url)
    client.group("before")
    for number in range(3):
        assert Forked(lambda: client.group("child")).fault() == ""
        client.group(f"after-{number}")
    assert way.connections == 4, "one for the parent, and one for each child"


def test_a_forked_worker_does_not_wait_for_threads_that_it_has_not(client: hapax.Client) -> None:
    """Threads are not forked. What was handed to those of the parent, in the child, was never done."""

    async def pay(key: str) -> None:
        async with client.once("payments", key, effect="irreversible") as op:
            assert op.first
            op.result = key

    asyncio.run(pay("parent"))
    assert Forked(lambda: asyncio.run(asyncio.wait_for(pay("child"), 20))).fault() == ""
    asyncio.run(pay("after"))


def test_a_forked_worker_makes_no_key_that_its_parent_makes_too(tmp_path: Path) -> None:
    """A worker inherits a generator in the middle of its block. It handed out the numbers that the parent was to hand out, with
    the same nonce: two jobs under one key, of which one was never done."""

    def child() -> None:
        with pytest.raises(hapax.NoKey, match="a file and a client id of its own"):
            keys.next()
        keys.close()

    with hapax.KeyGenerator(tmp_path / "keys", "worker-7") as keys:
        keys.next()
        assert Forked(child).fault() == ""
        assert keys.next().startswith("worker-7:2:")
        # Nor has the child let go of the parent's lock.
        with pytest.raises(hapax.NoKey, match="another process"):
            hapax.KeyGenerator(tmp_path / "keys", "worker-7")


def test_a_fork_within_a_block_leaves_its_end_to_the_parent(client: hapax.Client) -> None:
    """A child that is forked in the middle of an effect comes out of the block as well. What it said was taken for the parent's
    word: a failure of something that was still under way."""

    def leave(error: BaseException | None) -> None:
        op.result = "the child's"
        # A lease is let go of, too, by nobody but the process that keeps it.
        op.__exit__(None if error is None else type(error), error, None)

    def leave_well() -> None:
        with pytest.raises(hapax.NotRecorded, match="forked"):
            leave(None)

    with client.once("payments", "k", effect="idempotent", lease=30) as op:
        assert Forked(lambda: leave(SystemExit(1))).fault() == ""
        assert Forked(lambda: leave(hapax.NoEffect())).fault() == ""
        assert Forked(leave_well).fault() == ""
        assert client.explain(op.operation)["state"] == "pending"
        op.result = "the parent's"
    with client.once("payments", "k", effect="idempotent") as again:
        assert again.replayed and again.result == "the parent's"


def test_a_refusal_gets_out_of_a_worker_whole(client: hapax.Client) -> None:
    """Pools of processes hand on what a task raises. One that cannot be put together again breaks the pool, or hangs it."""
    refused: list[hapax.HapaxError] = []
    for request in (1, 2):
        try:
            with client.once("payments", "k", request=request) as op:
                op.result = 1
        except hapax.Mismatch as error:
            refused.append(error)
    for _ in range(2):
        try:
            with client.once("payments", "l"):
                raise hapax.Rejected("no such account", 7)
        except hapax.Rejected:
            continue
        except hapax.FailedBefore as error:
            refused.append(error)
    try:
        with client.once("payments", "a key with spaces"):
            raise AssertionError("it must not run")
    except hapax.Refused as error:
        assert str(error).count("[HX0001]") == 1
        refused.append(error)
    assert len(refused) == 3
    for one in refused:
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one) and str(again) == str(one) and again.__dict__ == one.__dict__


def test_a_fork_within_a_handler_leaves_its_end_to_the_parent(daemon: Daemon) -> None:
    """The same, for a message: the child's exception ended what its parent was still at."""
    for sequence, error in enumerate([SystemExit(1), RuntimeError("the child's")]):
        client = hapax.Client(daemon.url)
        guard = client.guard("billing", lambda message, why: None, ack_wait=30, max_deliveries=5, effect="idempotent")

        def handler(message: hapax.Message) -> None:
            child = os.fork()
            if child == 0:
                raise error
            os.waitpid(child, 0)
            # Its word would have set the message free.
            again = guard.handle(hapax.Message("orders", message.sequence, delivery=2), lambda message: None)
            assert again.what == "nak"

        parent = os.getpid()
        try:
            settle = guard.handle(hapax.Message("orders", sequence), handler)
        finally:
            if os.getpid() != parent:
                os._exit(0)
        assert settle == hapax.Settle("ack")
