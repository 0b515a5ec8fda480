"""Streams over the daemon: each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import hapax
from conftest import Daemon

BODY = [b"once ", b"upon ", b"a time"]
WHOLE = hapax.StreamEnd(200, 16, hashlib.sha256(b"".join(BODY)).hexdigest())


def saying(client: hapax.Client, node: str = "say", effect: str = "irreversible", **more: object) -> hapax.Stream:
    return client.stream("run-1", node, "openai:chat", effect=effect, wait=0, **more)


async def arriving() -> AsyncIterator[bytes]:
    for chunk in BODY:
        yield chunk


def test_the_end_is_recorded_before_the_last_bytes_are_given_on(client: hapax.Client) -> None:
    with saying(client) as call:
        assert call.first and call.headers == {"Idempotency-Key": call.key}
        with pytest.raises(hapax.InFlight):
            with saying(client):
                raise AssertionError("it must not run")
        came = []
        for chunk in call.passing(BODY):
            came.append(chunk)
            ended = client.explain(call.operation)["state"] == "committed"
            assert ended == (len(came) == len(BODY)), came
    assert came == BODY
    with saying(client) as again:
        assert not again.first and again.finished == WHOLE


def test_async_streams_are_alike(client: hapax.Client) -> None:
    async def story() -> None:
        async with saying(client) as call:
            came = []
            async for chunk in call.passing_async(arriving()):
                came.append(chunk)
                ended = client.explain(call.operation)["state"] == "committed"
                assert ended == (len(came) == len(BODY)), came
        assert came == BODY
        async with saying(client) as again:
            assert not again.first and again.finished == WHOLE
        with pytest.raises(ConnectionResetError):
            async with saying(client, "cut"):
                raise ConnectionResetError
        with pytest.raises(hapax.InDoubt):
            async with saying(client, "cut"):
                raise AssertionError("it must not run")

    asyncio.run(story())


def test_a_stream_that_breaks_off_is_in_doubt_unless_it_may_be_repeated(client: hapax.Client) -> None:
    def broken() -> Iterator[bytes]:
        yield BODY[0]
        raise ConnectionResetError("cut")

    for effect in ("irreversible", "idempotent"):
        with pytest.raises(ConnectionResetError):
            with saying(client, effect, effect) as call:
                list(call.passing(broken()))
    # Whoever stops listening has not heard the end, either.
    with saying(client, "left") as call:
        for _ in call.passing(BODY):
            break
    for node in ("irreversible", "left"):
        with pytest.raises(hapax.InDoubt):
            with saying(client, node):
                raise AssertionError("it must not run")
    with saying(client, "idempotent", "idempotent") as call:
        assert call.first
        assert list(call.passing(BODY)) == BODY
    # A provider that refuses answers without a stream.
    with saying(client, "refused") as call:
        call.answer = hapax.Answer(422, "no such model")
    with saying(client, "refused") as call:
        assert not call.first and call.answer == hapax.Answer(422, "no such model")
    with pytest.raises(hapax.NoEffect):
        with saying(client, "nothing"):
            raise hapax.NoEffect
    with saying(client, "nothing") as call:
        assert call.first and list(call.passing([])) == []


def test_a_process_that_dies_between_start_and_end_leaves_a_doubt(client: hapax.Client, daemon: Daemon) -> None:
    program = (
        "import sys, time, hapax\n"
        "with hapax.Client(sys.argv[1]).stream('run-1', sys.argv[2], 'openai:chat', effect=sys.argv[2], lease=1.0) as call:\n"
        "    for chunk in call.passing(iter([b'once ', b'upon ', b'a time'])):\n"
        "        print('passed', flush=True)\n"
        "        time.sleep(600)\n"
    )
    for effect in ("irreversible", "idempotent"):
        command = [sys.executable, "-c", program, daemon.url, effect]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "passed\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    # The daemon dies too: what it had recorded is the start.
    daemon.kill()
    daemon.start()

    def asked(effect: str) -> hapax.Stream:
        """Until the lease of the dead is over."""
        while True:
            try:
                with client.stream("run-1", effect, "openai:chat", effect=effect, wait=5) as call:
                    if call.first:
                        assert list(call.passing(BODY)) == BODY
                return call
            except hapax.InFlight:
                pass

    with pytest.raises(hapax.InDoubt):
        asked("irreversible")
    assert asked("idempotent").finished == WHOLE
    states = {effect.effect: (effect.state, effect.attempt) for effect in client.effects_of_run("run-1")}
    assert states == {"irreversible": ("escaped", 1), "idempotent": ("completed", 2)}


@pytest.mark.parametrize("kind", ["stream", "activity"])
def test_a_call_that_takes_longer_than_its_lease_keeps_it(client: hapax.Client, kind: str) -> None:
    def asked() -> hapax.Activity:
        make = client.stream if kind == "stream" else client.activity
        return make("run-1", "long", "openai:chat", effect="idempotent", lease=3.0)

    def renewed(call: hapax.Activity) -> None:
        first = client.explain(call.operation)["version"]
        while client.explain(call.operation)["version"] == first:
            threading.Event().wait(0.02)

    with asked() as call:
        renewed(call)
        assert client.explain(call.operation)["state"] == "pending"
        call.answer = hapax.Answer(503, "busy")

    async def alike() -> None:
        async with asked() as call:
            assert call.first
            await asyncio.to_thread(renewed, call)
            call.answer = hapax.Answer(200, "done")

    asyncio.run(asyncio.wait_for(alike(), 60))
    with asked() as call:
        assert call.answer == hapax.Answer(200, "done")


def test_a_stream_may_be_called_again_where_its_policy_says_so(tmp_path: Path) -> None:
    (tmp_path / "hapax.toml").write_text(
        '[surface.activity]\npreset = "activity"\ncapture = { on_uncaptured = "reinvoke" }\n'
    )
    daemon = Daemon(tmp_path)
    try:
        client = hapax.Client(daemon.url)
        with saying(client, effect="idempotent") as call:
            key = call.key
            assert list(call.passing(BODY)) == BODY
        with saying(client, effect="idempotent") as call:
            assert not call.first and call.again and call.key == key
            assert list(call.passing([b"another body"])) == [b"another body"]
        assert [effect.attempt for effect in client.effects_of_run("run-1")] == [1]
    finally:
        daemon.kill()
