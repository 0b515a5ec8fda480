"""Each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import hapax


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
    with client.once("payments", "k", effect="irreversible", lease=0.6) as op:
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            assert client.explain(op.operation)["state"] == "pending"
            time.sleep(0.2)
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
        async with client.once("payments", "b", lease=0.6) as op:
            await asyncio.sleep(1.5)
            op.result = 2
        async with client.once("payments", "b") as again:
            assert again.replayed and again.result == 2

    asyncio.run(main())
    assert ran == ["a"]


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
