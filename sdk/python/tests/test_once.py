"""Each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hapax
from ways import Held


def test_a_retry_gets_the_first_answer_and_runs_nothing(client: hapax.Client) -> None:
    ran: list[int] = []
    for _ in range(3):
        with client.once("payments", "order-17", request={"amount": 1}, effect="irreversible") as op:
            if op.first:
                ran.append(1)
                op.result = {"charge": "ch_1", "amount": 1}
        assert op.result == {"charge": "ch_1", "amount": 1}
    assert ran == [1]
    assert op.replayed


def test_another_request_under_the_key_is_refused(client: hapax.Client) -> None:
    with client.once("payments", "k", request=1) as op:
        op.result = 1
    with pytest.raises(hapax.Mismatch) as refused:
        with client.once("payments", "k", request=2):
            raise AssertionError("it must not run")
    assert refused.value.code == "HX0005"


def test_a_caller_that_finds_it_running_is_told_so(client: hapax.Client) -> None:
    with client.once("payments", "k") as op:
        with pytest.raises(hapax.InFlight) as refused:
            with client.once("payments", "k", wait=0):
                raise AssertionError("it must not run")
        assert refused.value.retry_after is not None
        op.result = "done"


def test_an_exception_leaves_a_doubt_that_no_new_key_may_step_over(client: hapax.Client) -> None:
    with pytest.raises(RuntimeError):
        with client.once("payments", "k", effect="irreversible"):
            raise RuntimeError("the line went dead")
    with pytest.raises(hapax.InDoubt) as refused:
        with client.once("payments", "k", effect="irreversible"):
            raise AssertionError("it must not run")
    assert refused.value.operation is not None
    assert client.explain(refused.value.operation)["advice"] == "resolve"


def test_nothing_happened_and_the_next_caller_runs_it(client: hapax.Client) -> None:
    with pytest.raises(hapax.NoEffect):
        with client.once("payments", "k", effect="irreversible"):
            raise hapax.NoEffect
    with client.once("payments", "k", effect="irreversible") as op:
        assert op.first


def test_a_final_failure_is_recorded_and_a_retryable_one_is_not(client: hapax.Client) -> None:
    with pytest.raises(hapax.Retryable):
        with client.once("payments", "k"):
            raise hapax.Retryable
    with pytest.raises(hapax.Rejected):
        with client.once("payments", "k"):
            raise hapax.Rejected("no such account")
    with pytest.raises(hapax.FailedBefore) as before:
        with client.once("payments", "k"):
            raise AssertionError("it must not run")
    assert before.value.answer == ["no such account"]


def test_a_lease_is_renewed_while_the_block_runs(client: hapax.Client) -> None:
    with client.once("payments", "k", effect="irreversible", lease=6) as op:
        first = client.explain(op.operation)["version"]
        until = time.monotonic() + 60
        renewed = False
        while not renewed:
            assert time.monotonic() < until, "it was never renewed"
            known = client.explain(op.operation)
            # A lapse would be written down too, as a doubt.
            assert known["state"] == "pending", known
            renewed = known["version"] != first
            time.sleep(0.1)
        op.result = 1
    with client.once("payments", "k", effect="irreversible") as again:
        assert again.replayed and again.result == 1


def test_two_threads_at_once_run_it_once(client: hapax.Client) -> None:
    ran: list[int] = []
    results: list[Any] = []

    def work() -> None:
        with client.once("payments", "k", wait=20) as op:
            if op.first:
                ran.append(1)
                time.sleep(0.2)
                op.result = "one"
        results.append(op.result)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ran == [1]
    assert results == ["one"] * 8


def test_the_decorator_guards_by_the_arguments(client: hapax.Client) -> None:
    ran: list[str] = []

    @hapax.idempotent("payments", key=lambda order, amount=1: order, client=client)
    def pay(order: str, amount: int = 1) -> dict[str, Any]:
        ran.append(order)
        return {"order": order, "amount": amount}

    assert pay("a") == pay("a", amount=1) == {"order": "a", "amount": 1}
    with pytest.raises(hapax.Mismatch):
        pay("a", 2)
    assert ran == ["a"]


def test_async_blocks_and_functions_are_alike(client: hapax.Client) -> None:
    ran: list[str] = []

    @hapax.idempotent("payments", key=lambda order: order, client=client, wait=20)
    async def pay(order: str) -> str:
        ran.append(order)
        await asyncio.sleep(0.1)
        return f"paid {order}"

    async def main() -> None:
        assert await asyncio.gather(*(pay("a") for _ in range(5))) == ["paid a"] * 5
        async with client.once("payments", "b", effect="irreversible", lease=6) as op:
            first = (await asyncio.to_thread(client.explain, op.operation))["version"]
            until = time.monotonic() + 60
            renewed = False
            while not renewed:
                assert time.monotonic() < until, "it was never renewed"
                known = await asyncio.to_thread(client.explain, op.operation)
                assert known["state"] == "pending", known
                renewed = known["version"] != first
                await asyncio.sleep(0.1)
            op.result = 2
        async with client.once("payments", "b", effect="irreversible") as again:
            assert again.replayed and again.result == 2

    asyncio.run(main())
    assert ran == ["a"]


def test_many_coroutines_that_wait_do_not_keep_the_first_from_its_end(client: hapax.Client) -> None:
    ran: list[int] = []

    async def pay() -> Any:
        async with client.once("payments", "k", effect="irreversible", wait=40) as op:
            if op.first:
                ran.append(1)
                # Until the others wait, more of them than an event loop has threads.
                until = time.monotonic() + 30
                while waiting() < 40 and time.monotonic() < until:
                    await asyncio.sleep(0.05)
                op.result = "paid"
        return op.result

    def waiting() -> int:
        return sum(thread.name.startswith("hapax-begin") for thread in threading.enumerate())

    async def main() -> list[Any]:
        return await asyncio.gather(*(pay() for _ in range(50)))

    started = time.monotonic()
    assert asyncio.run(main()) == ["paid"] * 50
    assert ran == [1]
    assert time.monotonic() - started < 39, "they gave up waiting before the first could say how it ended"


def test_a_result_that_is_not_json_is_said_to_be_not_recorded(client: hapax.Client) -> None:
    with pytest.raises(hapax.NotRecorded):
        with client.once("payments", "k", effect="irreversible") as op:
            op.result = object()
    assert client.explain(op.operation)["state"] == "in_doubt"
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(hapax.NotRecorded):
        with client.once("payments", "l", effect="irreversible") as op:
            op.result = loop


def test_what_others_recorded_comes_back_as_what_it_is(client: hapax.Client) -> None:
    for key, outcome, expected in [
        ("bytes", {"body_base64": "/wAB"}, b"\xff\x00\x01"),
        ("handle", {"handle": "s3://bucket/answer"}, "s3://bucket/answer"),
        ("text", {"body": "not JSON"}, "not JSON"),
        ("nothing", {}, None),
    ]:
        told = client.begin({"surface": "payments", "key": key})
        client.step(told["operation"], "complete", token=told["token"], outcome=outcome)
        with client.once("payments", key) as op:
            assert op.replayed and op.result == expected, key


def test_a_daemon_killed_in_between_forgets_nothing_acknowledged(daemon: Any) -> None:
    client = hapax.Client(daemon.url)
    with client.once("payments", "before", effect="irreversible") as op:
        op.result = "kept"
    with client.once("payments", "during", effect="irreversible") as op:
        daemon.kill()
        daemon.start()
        op.result = "told after the restart"
    for key, answer in [("before", "kept"), ("during", "told after the restart")]:
        with client.once("payments", key, effect="irreversible") as op:
            assert op.replayed and op.result == answer


def test_a_block_that_is_cancelled_while_it_begins_leaves_nothing_behind(daemon: Any, client: hapax.Client) -> None:
    """A request handler is cancelled (its own caller left) while the daemon's answer is under way. The answer was: run it. It
    reached a thread that nobody waited for, so the operation stood there as started until its lease lapsed into doubt, and
    a person had to say that nothing had happened."""
    blocks: list[Callable[[hapax.Client], Any]] = [
        lambda there: there.once("payments", "k", effect="irreversible"),
        lambda there: there.activity("run", "node", "stripe", request={"amount": 1}),
    ]
    for block in blocks:
        held = Held(daemon)
        there = hapax.Client(held.url)

        async def begin() -> None:
            async with block(there):
                raise AssertionError("it was cancelled before it could run")

        async def main() -> None:
            beginning = asyncio.create_task(begin())
            await asyncio.to_thread(held.arrived.wait)
            beginning.cancel()
            with pytest.raises(asyncio.CancelledError):
                await beginning

        asyncio.run(main())
        held.go.set()
        until = time.monotonic() + 10
        while True:
            try:
                with block(client) as op:
                    assert op.first, "nothing had run"
                    raise hapax.NoEffect
            except hapax.NoEffect:
                break
            except (hapax.InFlight, hapax.JoinedFailure):
                assert time.monotonic() < until, "it is still begun"
                time.sleep(0.05)


def test_no_daemon_is_said_plainly() -> None:
    with pytest.raises(hapax.Unreachable):
        with hapax.Client("http://127.0.0.1:1").once("payments", "k"):
            raise AssertionError("it must not run")


def test_the_example_moves_money_once(daemon: Any) -> None:
    example = Path(__file__).resolve().parents[1] / "examples" / "pay.py"
    environment = {**os.environ, "HAPAX_URL": daemon.url}
    run = subprocess.run([sys.executable, str(example)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "asked 3 times, moved 4200" in run.stdout
