"""A real bus that delivers at least once, and the daemon that says which deliveries are to be handled."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hapax
from conftest import Daemon

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "jetstream.py"


@pytest.fixture()
def bus(tmp_path: Path) -> Iterator[str]:
    """A NATS server with JetStream. Debian puts it where not every user looks."""
    program = shutil.which("nats-server") or "/usr/sbin/nats-server"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    flags = ["--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(tmp_path / "nats")]
    server = subprocess.Popen([program, *flags], stderr=subprocess.DEVNULL)
    try:
        for _ in range(1_000):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, "it ended"
            time.sleep(0.02)
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def test_orders_that_jetstream_delivers_again_and_again_leave_the_house_once(daemon: Daemon, bus: str) -> None:
    """One order is said three times, every message comes to three consumers, and one acknowledgement is lost."""
    run = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "HAPAX_URL": daemon.url, "NATS_URL": bus},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    told = run.stdout.splitlines()
    assert told[-1] == "five messages, three consumers, more than 15 deliveries: 2 parcels left the house", run.stdout
    assert sorted(line for line in told if line.startswith("  >> ")) == ["  >> order 17 is shipped", "  >> order 18 is shipped"]
    # The one whose acknowledgement was lost came again, and was only acknowledged.
    lost = next(line for line in told if "the line breaks" in line)
    message = lost.rsplit("message ", 1)[1].split()[0]
    again = [line for line in told[told.index(lost) :] if line.startswith(f"  two: message {message}, ")]
    assert again and again[-1].endswith("ack"), run.stdout
    assert "has no number" in told[-2], run.stdout


def test_a_message_that_comes_twenty_times_at_once_is_awaited_by_one_handler(client: hapax.Client) -> None:
    """Twenty deliveries in one loop. The one handler takes longer than the broker waits, and says so."""
    handled: list[int] = []
    heard: list[int] = []

    async def story() -> None:
        done = asyncio.Event()

        async def handler(message: hapax.Message) -> None:
            handled.append(message.delivery)
            await done.wait()

        async def in_progress() -> None:
            heard.append(1)
            if len(heard) == 3:
                done.set()
            raise RuntimeError("what a broker's client throws stops nobody")

        guard = client.guard("billing", lambda message, why: None, ack_wait=0.3, max_deliveries=50)

        async def deliver(delivery: int) -> hapax.Settle:
            while True:
                settle = await guard.handle_async(hapax.Message("orders", 1, b"1", delivery=delivery), handler, in_progress)
                if settle.what != "nak":
                    return settle
                await asyncio.sleep(0.02)

        assert await asyncio.gather(*(deliver(number) for number in range(1, 21))) == [hapax.Settle("ack")] * 20

    asyncio.run(story())
    assert len(handled) == 1
    assert len(heard) >= 3


def test_a_handler_that_nobody_would_await_does_not_count_as_done(client: hapax.Client) -> None:
    """`async def` given to `handle`: it would return at once with nothing done, and the message would be acknowledged."""
    handled: list[int] = []
    letters: list[str] = []

    async def handler(message: hapax.Message) -> None:
        handled.append(message.sequence)

    async def unreadable(message: hapax.Message) -> None:
        raise hapax.Undecodable("it is empty")

    async def put_aside(message: hapax.Message, why: str) -> None:
        letters.append(why)

    guard = client.guard("billing", lambda message, why: None, ack_wait=30, max_deliveries=5)
    with pytest.raises(TypeError, match="handle_async"):
        guard.handle(hapax.Message("orders", 1), handler)
    # Behind a lambda it is only seen once it was called: what it did is not known, and so it is not done.
    assert guard.handle(hapax.Message("orders", 2), lambda message: handler(message)) == hapax.Settle("nak", 30.0)
    awaiting = client.guard("billing", put_aside, ack_wait=30, max_deliveries=5)
    with pytest.raises(TypeError, match="handle_async"):
        awaiting.handle(hapax.Message("orders", 3), lambda message: None)
    assert asyncio.run(guard.handle_async(hapax.Message("orders", 1), handler)) == hapax.Settle("ack")
    assert handled == [1]
    # A letter that is awaited is kept before the broker is told to forget.
    assert asyncio.run(awaiting.handle_async(hapax.Message("orders", 4), unreadable)) == hapax.Settle("terminate")
    assert len(letters) == 1 and "it is empty" in letters[0]
    # One that nobody would await is not kept, so nothing is forgotten.
    careless = client.guard("billing", lambda message, why: put_aside(message, why), ack_wait=30, max_deliveries=5)
    assert asyncio.run(careless.handle_async(hapax.Message("orders", 5), unreadable)) == hapax.Settle("nak", 2.0)
    assert len(letters) == 1
