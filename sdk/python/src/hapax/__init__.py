"""Say a thing as often as you like; it happens once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._a2a import Queue, Task
from ._activities import Activity, Answer, EffectOfRun
from ._beats import Beat, Gathered, Session
from ._bus import Guard, Message, Settle, Undecodable
from ._client import Client, Effect
from ._decorator import _default, idempotent
from ._errors import (
    FailedBefore,
    GroupRefused,
    HapaxError,
    InDoubt,
    InFlight,
    JoinedFailure,
    Mismatch,
    Misused,
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
from ._groups import Group, Plan, PlanStep, Reported, Turn, Undo, undone_by, undone_from_outcome
from ._groups import Superseded as SupersededTurn
from ._jobs import Job, JobView
from ._keys import KeyGenerator, NoKey
from ._memos import Dependencies, Input, Memo, Memos
from ._once import Once
from ._streams import Stream, StreamEnd


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
    "Activity",
    "Answer",
    "Beat",
    "Client",
    "Dependencies",
    "Effect",
    "EffectOfRun",
    "FailedBefore",
    "Gathered",
    "Group",
    "GroupRefused",
    "Guard",
    "HapaxError",
    "InDoubt",
    "InFlight",
    "Input",
    "Job",
    "JobView",
    "JoinedFailure",
    "KeyGenerator",
    "Memo",
    "Memos",
    "Message",
    "Mismatch",
    "Misused",
    "NoEffect",
    "NoKey",
    "NoRoom",
    "NotKept",
    "NotRecorded",
    "Once",
    "Plan",
    "PlanStep",
    "Queue",
    "Refused",
    "Rejected",
    "Reported",
    "Retryable",
    "Session",
    "Settle",
    "Stream",
    "StreamEnd",
    "Superseded",
    "SupersededTurn",
    "Task",
    "TooLate",
    "Turn",
    "Unauthorized",
    "Undecodable",
    "Undo",
    "Unreachable",
    "idempotent",
    "once",
    "undone_by",
    "undone_from_outcome",
]
