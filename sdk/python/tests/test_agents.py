"""Agents over the daemon: each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest

import hapax
from conftest import BINARY, Daemon

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize(
    ("story", "last"),
    [
        ("pay", "asked 3 times, moved 4200"),
        ("refund", "asked twice in one conversation: one refund, both got the same answer"),
        ("supersede", "refunded: 456, and only that"),
        ("saga", "undone: the last booking first, each once"),
        ("messages", "delivered 12 times, handled: [b'order 1', b'order 2']"),
        ("memo", "never used again: what a rule of today might see otherwise, and results of tools"),
    ],
)
def test_the_example_tells_its_story(daemon: Daemon, story: str, last: str) -> None:
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{story}.py")],
        env={**os.environ, "HAPAX_URL": daemon.url},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1] == last


def test_the_example_of_jobs_kills_its_daemon_and_its_client_and_each_job_is_accepted_once() -> None:
    """It needs a daemon of its own, to kill it half-way."""
    example = str(EXAMPLES / "job_submit.py")
    run = subprocess.run([sys.executable, example, BINARY], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    told = run.stdout.splitlines()
    assert told[-1] == "the daemon was killed twice and the client once: each job was accepted once"
    killed, back = (told.index(f"  the daemon is {fate}") for fate in ("killed while one of them accepts it", "back"))
    heard = told.index("  all four hear: job 1")
    died = told.index("the client died before it could say that it was accepted")
    assert killed < back < heard < died, told
    assert any(line.startswith("the client is back: job 2, attempt 2") for line in told[died:]), told


REFUND = {"name": "refund", "business_key": "order:{args.order}", "narrative": ["/why"], "effect": "unsafe"}


def test_a_restarted_turn_and_the_one_it_replaced_get_one_refund(client: hapax.Client) -> None:
    group = client.group("talk")
    refunds: list[int] = []
    answers: list[object] = []
    start = threading.Barrier(4)

    def ask(why: str) -> None:
        start.wait()
        with client.tool(REFUND, {"order": 1, "why": why}, turn=group.turn, wait=30) as op:
            if op.first:
                refunds.append(1)
                op.result = {"refund": len(refunds)}
        answers.append(op.result)

    callers = [threading.Thread(target=ask, args=(f"reason {number}",)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert refunds == [1]
    assert answers == [{"refund": 1}] * 4


def test_two_amounts_that_differ_in_the_twentieth_digit_are_two_intents(client: hapax.Client) -> None:
    pay = {"name": "pay", "business_key": "pay:{args.amount}"}
    pay_order = {"name": "pay", "business_key": "order:{args.order}"}
    first, second = 12345678901234567890, 12345678901234567891
    for amount in (first, second):
        with client.tool(pay, {"amount": amount}) as op:
            assert op.first, f"{amount} was taken for another"
    with client.tool(pay_order, {"order": 1, "amount": first}) as op:
        op.result = first
    with pytest.raises(hapax.Mismatch):
        with client.tool(pay_order, {"order": 1, "amount": second}):
            raise AssertionError("it must not run")
    with client.tool(pay_order, {"order": 1, "amount": first}) as op:
        assert op.result == first
    # JSON has no decimals of its own: rather refused before anything is asked than rounded.
    with pytest.raises(TypeError, match="Decimal"):
        with client.tool(pay, {"amount": Decimal("12345678901234567890.10")}):
            raise AssertionError("it must not run")


def test_a_superseded_turn_starts_nothing_and_is_reported(client: hapax.Client, daemon: Daemon) -> None:
    group = client.group("talk")
    old = group.turn
    with client.once("refunds", "early", effect="compensatable", turn=old) as op:
        op.result = 1
    newer = group.supersede()
    assert [(one.operation, one.progress) for one in newer.started] == [(op.operation, "committed")]
    with pytest.raises(hapax.Superseded):
        with client.once("refunds", "late", turn=old):
            raise AssertionError("it must not run")
    # The daemon dies and comes back: the group is where it was.
    daemon.kill()
    daemon.start()
    assert client.group("talk").turn == newer.turn
    group.commit()
    assert "commit point" in (group.why_not_supersede() or "")
    with pytest.raises(hapax.GroupRefused):
        group.absorb()
    assert group.force_complete("talk-2").turn.group != group.turn.group


def test_an_activity_gives_its_recorded_answer_and_its_key(client: hapax.Client) -> None:
    def charge() -> hapax.Activity:
        return client.activity("run-1", "pay", "stripe:create-charge", business_key="order-1", effect="irreversible")

    with charge() as call:
        assert call.first and call.headers == {"Idempotency-Key": call.key}
        call.answer = hapax.Answer(402, '{"declined": true}')

    async def again() -> None:
        async with charge() as call:
            assert not call.first
        assert call.answer == hapax.Answer(402, '{"declined": true}')

    asyncio.run(again())
    with pytest.raises(ConnectionResetError):
        with client.activity("run-1", "mail", "mail:send", effect="irreversible"):
            raise ConnectionResetError
    states = sorted(effect.state for effect in client.effects_of_run("run-1"))
    assert states == ["completed", "escaped"]


def test_a_redelivered_message_finds_its_beat_and_its_answer(client: hapax.Client) -> None:
    session = client.session("s1")
    gathered = session.gather(["m2", "m1"])
    assert gathered.kind == "new"
    beat = session.seal(session.absorb(gathered.beat, ["m3"]))
    assert beat.sealed and beat.size == 3
    with session.answer(beat) as op:
        op.result = "hello"
    known = session.gather(["m3"])
    assert known.kind == "known"
    with session.answer(known.beat) as op:
        assert not op.first
    assert op.result == "hello"
    overlap = session.gather(["m1", "m9"])
    assert (overlap.kind, overlap.unanswered) == ("overlap", ("m9",))


def test_an_inverse_of_which_nobody_knows_waits_for_a_person(client: hapax.Client) -> None:
    trip = client.group("trip")
    with client.once("bookings", "hotel", turn=trip.turn, compensation=hapax.undone_by("cancel", "h-1")) as op:
        op.result = 1

    def cancel(undo: hapax.Undo) -> None:
        raise TimeoutError(undo.input)

    with pytest.raises(TimeoutError):
        trip.unwind({"cancel": ("unsafe", cancel)})

    async def go_on() -> hapax.Plan:
        async def never(undo: hapax.Undo) -> None:
            raise AssertionError("it must not run")

        return await trip.unwind_async({"cancel": ("unsafe", never)})

    plan = asyncio.run(go_on())
    assert (plan.state, plan.over) == ("manual", False)
    assert trip.seen_to(plan.steps[0].ordinal, "looked at the hotel's page").state == "completed"


def test_a_message_is_handled_once_and_a_doubtful_one_ends_with_a_person(client: hapax.Client) -> None:
    handled: list[int] = []
    letters: list[str] = []
    consumer = f"billing-{id(handled)}"
    guard = client.guard(consumer, lambda message, why: letters.append(why), ack_wait=7, max_deliveries=2)

    def deliver(sequence: int, handler: object, delivery: int = 1, intent: str | None = None) -> hapax.Settle:
        message = hapax.Message("orders", sequence, f"{sequence}".encode(), intent, delivery)
        return guard.handle(message, handler)  # type: ignore[arg-type]

    assert deliver(1, lambda message: handled.append(1)) == hapax.Settle("ack")
    assert deliver(1, lambda message: handled.append(2), delivery=2) == hapax.Settle("ack")
    assert handled == [1]

    def busy(message: hapax.Message) -> None:
        raise hapax.Retryable("the bank is closed")

    assert deliver(2, busy).what == "nak"
    assert deliver(2, lambda message: handled.append(2), delivery=2) == hapax.Settle("ack")
    assert handled == [1, 2]

    def broken(message: hapax.Message) -> None:
        raise RuntimeError("the line went dead")

    # Nobody knows whether it happened: it rests, and on its last delivery a person is told before the broker forgets it.
    assert deliver(3, broken) == hapax.Settle("nak", 7.0)
    assert deliver(3, lambda message: handled.append(3)) == hapax.Settle("nak", 7.0)
    assert deliver(3, lambda message: handled.append(3), delivery=2) == hapax.Settle("terminate")
    assert (handled, len(letters)) == ([1, 2], 1)
    assert "unknown" in letters[0]

    # One intent for two messages.
    assert deliver(4, lambda message: None, intent="pay-4") == hapax.Settle("ack")
    assert deliver(5, lambda message: handled.append(5), intent="pay-4") == hapax.Settle("terminate")
    assert handled == [1, 2]

    # A dead letter that cannot be put aside: the broker is not told to forget.
    def no_room(message: hapax.Message, why: str) -> None:
        raise OSError("no room")

    careful = client.guard(consumer, no_room, ack_wait=7, max_deliveries=2)
    assert careful.handle(hapax.Message("orders", 6, b"6", "pay-4"), lambda message: None) == hapax.Settle("nak", 2.0)
    with pytest.raises(hapax.Refused, match="retention"):
        client.guard("unlimited", no_room, ack_wait=7).handle(hapax.Message("orders", 1), lambda message: None)


def test_a_message_rests_while_the_daemon_is_away_and_is_handled_once_when_it_is_back(
    daemon: Daemon, client: hapax.Client
) -> None:
    handled: list[int] = []
    guard = client.guard("billing", lambda message, why: None, ack_wait=30, max_deliveries=5)

    def deliver(delivery: int) -> hapax.Settle:
        return guard.handle(hapax.Message("orders", 1, b"1", delivery=delivery), lambda message: handled.append(1))

    daemon.kill()
    assert deliver(1) == hapax.Settle("nak", 2.0)
    assert handled == []
    daemon.start()
    assert deliver(2) == hapax.Settle("ack")
    assert deliver(3) == hapax.Settle("ack")
    assert handled == [1]


def test_the_broker_hears_of_a_handler_under_way_also_while_the_daemon_is_away(
    daemon: Daemon, client: hapax.Client
) -> None:
    heard: list[int] = []
    enough = threading.Event()
    guard = client.guard("billing", lambda message, why: None, ack_wait=0.3, max_deliveries=5)

    def in_progress() -> None:
        heard.append(1)
        if len(heard) >= 3:
            enough.set()
        raise RuntimeError("what a broker's client throws stops nobody")

    def slow(message: hapax.Message) -> None:
        daemon.kill()
        assert enough.wait(60)
        daemon.start()

    # The daemon that is back gave no ticket for it, and hears its end all the same.
    assert guard.handle(hapax.Message("orders", 1, b"1"), slow, in_progress) == hapax.Settle("ack")


def test_a_message_that_no_daemon_takes_is_put_aside_and_a_long_delay_is_cut(client: hapax.Client) -> None:
    letters: list[str] = []
    guard = client.guard("billing", lambda message, why: letters.append(why), ack_wait=30, max_deliveries=5)

    def never(message: hapax.Message) -> None:
        raise AssertionError("it must not run")

    large = hapax.Message("orders", 1, b"x" * 4_000_000)
    assert guard.handle(large, never) == hapax.Settle("terminate")
    assert len(letters) == 1

    def closed(message: hapax.Message) -> None:
        error = hapax.Retryable("closed for the summer")
        error.delay = 40 * 86_400.0  # type: ignore[attr-defined]
        raise error

    assert guard.handle(hapax.Message("orders", 2, b"2"), closed) == hapax.Settle("nak", 86_400.0)


def test_a_failure_whose_text_is_no_text_is_told_all_the_same(client: hapax.Client) -> None:
    """Names of files may hold bytes that are no text, and errors name files."""
    failure = os.fsdecode(b"no such file: \xff")

    def handler(message: hapax.Message) -> None:
        raise hapax.Retryable(failure)

    guard = client.guard("billing", lambda message, why: None, ack_wait=30, max_deliveries=5)
    assert guard.handle(hapax.Message("orders", 1), handler).what == "nak"
    assert guard.handle(hapax.Message("orders", 1, delivery=2), lambda message: None) == hapax.Settle("ack")
    with pytest.raises(FileNotFoundError):
        with client.stream("run-1", "say", "openai:chat", effect="irreversible") as call:
            raise FileNotFoundError(failure)
    assert client.explain(call.operation)["state"] == "in_doubt"
