"""Jobs over the daemon: each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import threading

import pytest

import hapax
from conftest import Daemon

KEY = "worker-7.dc1:4000:1:00000000000000aa"


def test_duplicates_of_a_running_submission_wait_for_it_and_hear_the_same(client: hapax.Client) -> None:
    accepted: list[int] = []
    answers: list[object] = []
    start = threading.Barrier(4)

    def send() -> None:
        start.wait()
        with client.job(KEY, {"do": "report"}) as op:
            if op.first:
                accepted.append(1)
                op.result = {"job": len(accepted)}
        answers.append(op.result)

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert accepted == [1] and answers == [{"job": 1}] * 4
    with pytest.raises(hapax.Mismatch):
        with client.job(KEY, {"do": "another"}):
            raise AssertionError("it must not run")


def test_a_daemon_that_dies_before_it_hears_the_end_has_it_when_it_is_back(daemon: Daemon, client: hapax.Client) -> None:
    with client.job(KEY, {"do": "report"}) as op:
        daemon.kill()
        daemon.start()
        assert client.job_by_id(op.operation).state == "pending"
        op.result = "job 1"
    seen = client.job_by_id(op.operation)
    assert (seen.state, seen.attempt) == ("committed", 1) and 0 < (seen.ends_in or 0) <= 300
    daemon.kill()
    daemon.start()

    async def again() -> None:
        async with client.job(KEY, {"do": "report"}) as op:
            assert op.replayed and op.result == "job 1"

    asyncio.run(again())


def test_a_refusal_is_answered_the_same_again_and_what_is_no_key_is_said(client: hapax.Client) -> None:
    with pytest.raises(hapax.Rejected):
        with client.job(KEY, {"do": "report"}) as op:
            raise hapax.Rejected("no such queue")
    with pytest.raises(hapax.FailedBefore) as before:
        with client.job(KEY, {"do": "report"}):
            raise AssertionError("it must not run")
    assert before.value.answer == ["no such queue"]
    seen = client.job_by_id(op.operation)
    assert seen.state == "rejected" and 0 < (seen.ends_in or 0) <= 60
    with pytest.raises(hapax.Refused) as refused:
        with client.job("order-17", {"do": "report"}):
            raise AssertionError("it must not run")
    assert refused.value.code == "HX0001"
