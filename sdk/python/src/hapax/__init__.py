"""Say a thing as often as you like; it happens once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._a2a import Queue, Task
from ._client import Client, Effect
from ._decorator import _default, idempotent
from ._errors import (
    FailedBefore,
    HapaxError,
    InDoubt,
    InFlight,
    JoinedFailure,
    Mismatch,
    NoEffect,
    NoRoom,
    NotKept,
    NotRecorded,
    Refused,
    Rejected,
    Retryable,
    Superseded,
    TooLate,
    Unauthorized,
    Unreachable,
)
from ._once import Once


def once(
    surface: str,
    key: str,
    *,
    request: Any = None,
    effect: Effect = "unsafe",
    scope: Mapping[str, str] | None = None,
    lease: float | None = None,
    wait: float | None = None,
) -> Once:
    """As `Client.once`, with the daemon that `HAPAX_URL` and `HAPAX_API_KEY` name."""
    return _default().once(surface, key, request=request, effect=effect, scope=scope, lease=lease, wait=wait)


__all__ = [
    "Client",
    "Effect",
    "FailedBefore",
    "HapaxError",
    "InDoubt",
    "InFlight",
    "JoinedFailure",
    "Mismatch",
    "NoEffect",
    "NoRoom",
    "NotKept",
    "NotRecorded",
    "Once",
    "Queue",
    "Refused",
    "Rejected",
    "Retryable",
    "Superseded",
    "Task",
    "TooLate",
    "Unauthorized",
    "Unreachable",
    "idempotent",
    "once",
]
