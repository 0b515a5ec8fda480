"""Tasks between agents: send, receive results, and work on what was sent to us."""

from __future__ import annotations

import base64
import json
import logging
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import HapaxError, NoEffect, NotRecorded, Refused, Rejected, Unreachable, said_by

if TYPE_CHECKING:
    from ._client import Client

_FENCED = ("HX0114", "HX0115", "HX0113")
_LONGEST_PAUSE = 5.0
_log = logging.getLogger("hapax")


@dataclass(frozen=True)
class Task:
    """A task in our hands, until we post a result, release it, or somebody repairs its lease."""

    id: str
    kind: str
    #: What was sent: JSON as values, bytes as `bytes`.
    payload: Any
    sender: str
    attempt: int
    lease_ms: int
    #: To be forwarded to calls that take an idempotency key: the same over all attempts.
    forward_key: str
    token: str
    lease_id: str


class Queue:
    """The daemon's queue, as the peer that our key names."""

    def __init__(self, client: Client, *, acting_as: str | None = None) -> None:
        self._client = client
        self._as = {"as": acting_as} if acting_as else {}

    def send(
        self,
        recipient: str,
        kind: str,
        payload: Any = None,
        *,
        key: str | None = None,
        id: str | None = None,
        intent: str = "",
    ) -> dict[str, Any]:
        """Sends a task. Under a `key` it is done once, and running it twice must do no harm."""
        wanted: dict[str, Any] = {
            "id": id or str(uuid.uuid4()),
            "recipient": {"key": recipient},
            "kind": kind,
            "intent": intent,
            **self._as,
        }
        if isinstance(payload, (bytes, bytearray)):
            wanted["payload_base64"] = base64.b64encode(payload).decode()
        else:
            wanted["payload"] = payload
        if key is not None:
            wanted["idempotency"] = {"class": "idempotent", "key": key}
        return self._client.call("POST", "/v1/a2a/send", wanted)

    def results(self, *, limit: int = 10, wait: float = 0.0) -> list[dict[str, Any]]:
        """What we sent and has a result, until we acknowledge it."""
        wanted = {"limit": limit, "wait_ms": round(wait * 1000), **self._as}
        return list(self._client.call("POST", "/v1/a2a/results", wanted)["items"])

    def ack(self, task: str) -> None:
        self._client.call("POST", "/v1/a2a/ack", {"task": task})

    def lease(self, *, limit: int = 1, lease: float = 60.0, wait: float = 0.0, worker: str | None = None) -> list[Task]:
        """Takes tasks. The call has a name of its own, so that a lost answer is had again and nothing is taken twice."""
        return self._lease(secrets.token_hex(16), limit, lease, wait, worker)

    def _lease(self, request: str, limit: int, lease: float, wait: float, worker: str | None) -> list[Task]:
        wanted: dict[str, Any] = {
            "limit": limit,
            "lease_ms": max(1, round(lease * 1000)),
            "wait_ms": round(wait * 1000),
            "request": request,
            **self._as,
        }
        if worker:
            wanted["worker"] = worker
        return [_task(item) for item in self._client.call("POST", "/v1/a2a/lease", wanted)["items"]]

    def renew(self, task: Task) -> None:
        said = {"task": task.id, "token": task.token, "lease_ms": task.lease_ms}
        self._client.call("POST", "/v1/a2a/renew", said, max(1.0, task.lease_ms / 6000))

    def release(self, task: Task) -> None:
        """Gives it back: nothing happened."""
        self._client.call("POST", "/v1/a2a/release", {"task": task.id, "token": task.token})

    def post(self, task: Task, result: Any = None, *, failed: str | None = None) -> None:
        """Says how it ended: a value that is JSON, or bytes. The same result twice is fine."""
        self._client.call("POST", "/v1/a2a/post", _said(task, result, failed))

    def work(
        self,
        handler: Callable[[Task], Any],
        *,
        lease: float = 60.0,
        worker: str | None = None,
        stop: threading.Event | None = None,
        wait: float = 10.0,
    ) -> Mapping[str, int]:
        """Lease, handle, post, until `stop` is set, with the lease renewed while the handler runs.

        A handler that raises `hapax.Rejected` posts a failure; one that raises `hapax.NoEffect` gives the task back. Any
        other exception, and a result that is neither JSON nor bytes, leaves the lease alone: nobody knows what happened,
        so a person or the retry gate decides. It is counted as unknown, and said in the log `hapax`.

        A daemon that cannot be reached is waited for: a result is posted until it has arrived. Only once `stop` is set it is
        given up, when its lease is over.
        """
        ended = stop or threading.Event()
        counts = {"posted": 0, "refused": 0, "unknown": 0, "released": 0}
        while not ended.is_set():
            # The same name until there is an answer: what a lost one had taken is told again.
            request = secrets.token_hex(16)
            tasks = _until_answered(lambda: self._lease(request, 1, lease, wait, worker), ended.wait, ended.is_set)
            for task in tasks or []:
                counts[self._handle(task, handler, ended)] += 1
        return counts

    def _handle(self, task: Task, handler: Callable[[Task], Any], ended: threading.Event) -> str:
        """Handles one task; what became of it."""
        with _Renewing(self, task):
            try:
                path, said, done = "post", _said(task, handler(task), None), "posted"
            except Rejected as error:
                path, said, done = "post", _said(task, None, said_by(error)), "posted"
            except NoEffect:
                path, said, done = "release", {"task": task.id, "token": task.token}, "released"
            except Exception:
                _log.exception("task %s: nobody knows what its handler did; its lease is left to go stale", task.id)
                return "unknown"
            over: list[float] = []

            def give_up() -> bool:
                if ended.is_set() and not over:
                    over.append(time.monotonic() + task.lease_ms / 1000)
                return bool(over) and time.monotonic() > over[0]

            try:
                told = _until_answered(lambda: self._client.call("POST", f"/v1/a2a/{path}", said), time.sleep, give_up)
            except Refused as error:
                # The lease was taken back meanwhile; the result is kept as evidence.
                if error.code in _FENCED:
                    return "refused"
                _log.error("task %s was handled, but its result was not taken: %s", task.id, error)
                return "unknown"
            if told is None:
                _log.error("task %s was handled, but the daemon gave no answer: its result is lost", task.id)
                return "unknown"
            return done


def _until_answered(call: Callable[[], Any], pause: Callable[[float], object], give_up: Callable[[], bool]) -> Any:
    """Calls until there is an answer that asking again would not change. `None`: it was given up."""
    wait = 0.1
    while True:
        try:
            return call()
        except Unreachable:
            after = None
        except Refused as error:
            if error.status not in (429, 503):
                raise
            after = error.retry_after
        if give_up():
            return None
        pause(min(max(wait, after or 0.0), _LONGEST_PAUSE))
        wait *= 2


def _said(task: Task, result: Any, failed: str | None) -> dict[str, Any]:
    """What is posted. A result that cannot be said is an error before anything is sent."""
    said: dict[str, Any] = {"task": task.id, "token": task.token}
    if failed is not None:
        return {**said, "status": "failed", "text": failed}
    if isinstance(result, (bytes, bytearray)):
        return {**said, "status": "completed", "base64": base64.b64encode(result).decode()}
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as unusable:
        raise NotRecorded(f"the task was handled, but its result is not JSON: {unusable} [HX0015]") from unusable
    return {**said, "status": "completed", "json": result}


class _Renewing:
    """Renews a lease at a third of its length."""

    def __init__(self, queue: Queue, task: Task) -> None:
        self._queue, self._task = queue, task
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        # Nobody waits for a renewal under way: after the end it does no harm.
        self._done.set()

    def _run(self) -> None:
        while not self._done.wait(self._task.lease_ms / 3000):
            try:
                self._queue.renew(self._task)
            except HapaxError:
                # Tried again at the next turn; a lease that was taken back is found out by the post.
                continue


def _task(item: Mapping[str, Any]) -> Task:
    task = item["task"]
    return Task(
        id=task["id"],
        kind=task["kind"],
        payload=base64.b64decode(task["payload_base64"]) if "payload_base64" in task else task.get("payload"),
        sender=task["sender"]["key"],
        attempt=item["attempt"],
        lease_ms=item["lease_ms"],
        forward_key=item["forward_key"],
        token=item["token"],
        lease_id=item["lease_id"],
    )
