"""At-least-once in, once handled: for consumers of any broker."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ._client import Client, Effect
from ._errors import HapaxError, NoEffect, Rejected, Retryable


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


DeadLetters = Callable[[Message, str], None]

# As long as a message rests where nobody can say anything about it.
_AWAY = Settle("nak", 2.0)
# A day, in seconds: what the daemon takes at most.
_LONGEST_DELAY = 86_400.0


class Undecodable(Exception):
    """Raised by a handler: the message cannot be read."""


class Guard:
    """Guards one consumer. `handle` runs the handler unless the message was handled before."""

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
            told = self._client.begin(wanted, "/v1/bus:deliver")
        except HapaxError as error:
            # However often it is delivered, it will be as large.
            if getattr(error, "status", 503) == 413:
                return self._put_aside(message, str(error))
            return _away(error)
        try:
            if told["verdict"] == "execute":
                said = self._run(told, message, handler, in_progress)
                said = {**said, "consumer": self._consumer, "delivery": message.delivery, "token": told["token"]}
                told = self._client.call("POST", f"/v1/bus/{told['operation']}:settle", said)
        except HapaxError as error:
            return _away(error)
        return self._settled(message, told)

    def _run(
        self,
        ticket: dict[str, Any],
        message: Message,
        handler: Callable[[Message], object],
        in_progress: Callable[[], object],
    ) -> dict[str, Any]:
        stop = threading.Event()
        pauses = (ticket["in_progress_every_ms"], ticket["lease_ms"] / 3)
        keeper = threading.Thread(target=self._keep, args=(ticket, in_progress, min(pauses) / 1000, stop), daemon=True)
        keeper.start()
        try:
            handler(message)
        except (NoEffect, Retryable) as error:
            return {"handled": "retryable", "why": _why(error), "delay_ms": _ms(min(getattr(error, "delay", 1.0), _LONGEST_DELAY))}
        except Rejected as error:
            return {"handled": "failed", "why": _why(error)}
        except Undecodable as error:
            return {"handled": "undecodable", "why": _why(error)}
        except Exception as error:
            return {"handled": "unknown", "why": _why(error)}
        finally:
            stop.set()
            keeper.join()
        return {"handled": "done"}

    def _keep(
        self, ticket: dict[str, Any], in_progress: Callable[[], object], pause: float, stop: threading.Event
    ) -> None:
        while not stop.wait(max(0.001, pause)):
            # Neither failing is a reason to stop a handler under way: its end may still be told. The broker hears it first:
            # it is to know also while the daemon is away.
            with contextlib.suppress(Exception):
                in_progress()
            with contextlib.suppress(Exception):
                self._client.step(ticket["operation"], "renew", token=ticket["token"])

    def _settled(self, message: Message, told: dict[str, Any]) -> Settle:
        if told["settle"] == "ack":
            return Settle("ack")
        if told["settle"] == "nak":
            return Settle("nak", told["after_ms"] / 1000)
        return self._put_aside(message, told["dead_letter"])

    def _put_aside(self, message: Message, why: str) -> Settle:
        # Durable before the broker forgets it.
        try:
            self._dead_letters(message, why)
        except Exception:
            return _AWAY
        return Settle("terminate")


def _away(error: HapaxError) -> Settle:
    """What a message comes to while the daemon says nothing about it. What is wrong with the guard itself is raised."""
    if getattr(error, "status", 503) in (400, 401, 403):
        raise error
    return _AWAY


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _why(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:4096]
