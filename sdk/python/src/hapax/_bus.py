"""At-least-once in, once handled: for consumers of any broker."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ._block import _asked
from ._client import Client, Effect
from ._errors import HapaxError, Misused, NoEffect, Rejected, Retryable, said_by
from ._lease import _in_thread


@dataclass(frozen=True)
class Message:
    """One delivery of a message."""

    stream: str
    sequence: int
    payload: bytes = b""
    intent: str | None = None
    """What its sender calls the intent behind it: the same over several messages."""
    delivery: int = 1


@dataclass(frozen=True)
class Settle:
    """What to tell the broker."""

    what: Literal["ack", "nak", "terminate"]
    after: float = 0.0
    """Seconds until it is to be delivered again."""


DeadLetters = Callable[[Message, str], object]
"""Keeps a message for a person. One that has to be awaited serves `handle_async` only."""

# As long as a message rests where nobody can say anything about it.
_AWAY = Settle("nak", 2.0)
_NOBODY_SAYS = {"settle": "nak", "after_ms": 2000}
# A day, in seconds: what the daemon takes at most.
_LONGEST_DELAY = 86_400.0


class Undecodable(Exception):
    """Raised by a handler: the message cannot be read."""


class Guard:
    """Guards one consumer. `handle` runs the handler unless the message was handled before; `handle_async` awaits it."""

    def __init__(
        self,
        client: Client,
        consumer: str,
        dead_letters: DeadLetters,
        *,
        ack_wait: float,
        max_deliveries: int | None = None,
        back_offs: Sequence[float] = (),
        retention: float | None = None,
        effect: Effect = "unsafe",
    ) -> None:
        self._client = client
        self._dead_letters = dead_letters
        self._consumer: dict[str, Any] = {
            "name": consumer,
            "ack_wait_ms": _ms(ack_wait),
            "back_offs_ms": [_ms(pause) for pause in back_offs],
            "effect": effect,
        }
        if max_deliveries is not None:
            self._consumer["max_deliveries"] = max_deliveries
        if retention is not None:
            self._consumer["retention_ms"] = _ms(retention)

    def handle(
        self,
        message: Message,
        handler: Callable[[Message], object],
        in_progress: Callable[[], object] = lambda: None,
    ) -> Settle:
        """Says what to tell the broker. What is to be acknowledged is durable by then. A handler that raises `Retryable` or
        `NoEffect` (with a `delay` in seconds, if it has one) has done nothing lasting, one that raises `Rejected` would
        fail again; after anything else it is unknown what happened."""
        # Nobody would await it, and the message would count as handled, or as put aside.
        if any(inspect.iscoroutinefunction(given) for given in (handler, in_progress, self._dead_letters)):
            raise Misused("`handle` awaits nothing: use `handle_async`")
        told = self._deliver(message)
        if told.get("verdict") == "execute":
            try:
                said = self._run(told, message, handler, in_progress)
            except BaseException as stopped:
                self._settle(told, message, _ended(stopped))
                raise
            told = self._settle(told, message, said)
        if told["settle"] != "terminate":
            return _settled(told)
        # Durable before the broker forgets it.
        try:
            _not_awaited(self._dead_letters(message, told["dead_letter"]))
        except Exception:
            return _AWAY
        return Settle("terminate")

    async def handle_async(
        self,
        message: Message,
        handler: Callable[[Message], Awaitable[object]],
        in_progress: Callable[[], Awaitable[object]] | None = None,
    ) -> Settle:
        """The same for asyncio, with a handler that is awaited. Dead letters may be put aside by either kind of function."""
        told = await _asked(self._client, lambda: self._deliver(message))
        if told.get("verdict") == "execute":
            try:
                said = await self._run_async(told, message, handler, in_progress)
            except BaseException as stopped:
                await asyncio.shield(_in_thread(self._client._ends, self._settle, told, message, _ended(stopped)))
                raise
            # Whoever cancels us now does not stop what was done from being told.
            told = await asyncio.shield(_in_thread(self._client._ends, self._settle, told, message, said))
        if told["settle"] != "terminate":
            return _settled(told)
        try:
            if inspect.iscoroutinefunction(self._dead_letters):
                await self._dead_letters(message, told["dead_letter"])
            else:
                _not_awaited(await asyncio.to_thread(self._dead_letters, message, told["dead_letter"]))
        except Exception:
            return _AWAY
        return Settle("terminate")

    def _deliver(self, message: Message) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "consumer": self._consumer,
            "stream": message.stream,
            "sequence": message.sequence,
            "payload_base64": base64.b64encode(message.payload).decode(),
            "delivery": message.delivery,
        }
        if message.intent is not None:
            wanted["intent"] = message.intent
        try:
            return {**self._client.begin(wanted, "/v1/bus:deliver"), "pid": os.getpid()}
        except HapaxError as error:
            # However often it is delivered, it will be as large.
            if getattr(error, "status", 503) == 413:
                return {"settle": "terminate", "dead_letter": str(error)}
            return _away(error)

    def _settle(self, ticket: dict[str, Any], message: Message, said: dict[str, Any]) -> dict[str, Any]:
        # A process that was forked in the handler comes out of it, too. It has no say: its parent goes on with the message.
        if ticket["pid"] != os.getpid():
            return _NOBODY_SAYS
        said = {**said, "consumer": self._consumer, "delivery": message.delivery, "token": ticket["token"]}
        try:
            return self._client.call("POST", f"/v1/bus/{ticket['operation']}:settle", said)
        except HapaxError as error:
            return _away(error)

    def _run(
        self,
        ticket: dict[str, Any],
        message: Message,
        handler: Callable[[Message], object],
        in_progress: Callable[[], object],
    ) -> dict[str, Any]:
        stop, telling = threading.Event(), threading.Lock()
        threading.Thread(target=self._keep, args=(ticket, in_progress, stop, telling), daemon=True).start()
        try:
            _not_awaited(handler(message))
        except Exception as error:
            return _ended(error)
        finally:
            # From here on the broker hears nothing more of it. Nobody waits for a renewal under way: it may hear nothing.
            with telling:
                stop.set()
        return {"handled": "done"}

    async def _run_async(
        self,
        ticket: dict[str, Any],
        message: Message,
        handler: Callable[[Message], Awaitable[object]],
        in_progress: Callable[[], Awaitable[object]] | None,
    ) -> dict[str, Any]:
        keeper = asyncio.create_task(self._keep_async(ticket, in_progress))
        try:
            await handler(message)
        except Exception as error:
            return _ended(error)
        finally:
            keeper.cancel()
        return {"handled": "done"}

    def _keep(
        self,
        ticket: dict[str, Any],
        in_progress: Callable[[], object],
        stop: threading.Event,
        telling: threading.Lock,
    ) -> None:
        while not stop.wait(_pause(ticket)):
            # Neither failing is a reason to stop a handler under way: its end may still be told. The broker hears it first:
            # it is to know also while the daemon is away.
            with telling, contextlib.suppress(Exception):
                if stop.is_set():
                    return
                in_progress()
            self._renew(ticket)

    async def _keep_async(
        self, ticket: dict[str, Any], in_progress: Callable[[], Awaitable[object]] | None
    ) -> None:
        while True:
            await asyncio.sleep(_pause(ticket))
            with contextlib.suppress(Exception):
                if in_progress is not None:
                    await in_progress()
            await _in_thread(self._client._ends, self._renew, ticket)

    def _renew(self, ticket: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):
            self._client.renew(ticket["operation"], ticket["token"], ticket["lease_ms"] / 1000)


def _ended(error: BaseException) -> dict[str, Any]:
    """What a handler's error says about what it did."""
    if isinstance(error, (NoEffect, Retryable)):
        delay = min(getattr(error, "delay", 1.0), _LONGEST_DELAY)
        return {"handled": "retryable", "why": _why(error), "delay_ms": _ms(delay)}
    if isinstance(error, Rejected):
        return {"handled": "failed", "why": _why(error)}
    if isinstance(error, Undecodable):
        return {"handled": "undecodable", "why": _why(error)}
    return {"handled": "unknown", "why": _why(error)}


def _not_awaited(returned: object) -> None:
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise Misused("it has to be awaited, and nobody does: give `handle_async` an `async def`")


def _settled(told: dict[str, Any]) -> Settle:
    return Settle("ack") if told["settle"] == "ack" else Settle("nak", told["after_ms"] / 1000)


def _pause(ticket: dict[str, Any]) -> float:
    return max(0.001, float(min(ticket["in_progress_every_ms"], ticket["lease_ms"] / 3)) / 1000)


def _away(error: HapaxError) -> dict[str, Any]:
    """What a message comes to while the daemon says nothing about it. What is wrong with the guard itself is raised."""
    if isinstance(error, Misused) or getattr(error, "status", 503) in (400, 401, 403):
        raise error
    return _NOBODY_SAYS


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _why(error: BaseException) -> str:
    return said_by(error)[:4096]
