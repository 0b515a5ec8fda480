"""Tasks between agents: send, receive results, and work on what was sent to us."""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import HapaxError, Refused

if TYPE_CHECKING:
    from ._client import Client

_FENCED = ("HX0114", "HX0115", "HX0113")


@dataclass(frozen=True)
class Task:
    """A task in our hands, until we post a result, release it, or somebody repairs its lease."""

    id: str
    kind: str
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
            "payload": payload,
            "intent": intent,
            **self._as,
        }
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
        wanted: dict[str, Any] = {
            "limit": limit,
            "lease_ms": max(1, round(lease * 1000)),
            "wait_ms": round(wait * 1000),
            "request": secrets.token_hex(16),
            **self._as,
        }
        if worker:
            wanted["worker"] = worker
        return [_task(item) for item in self._client.call("POST", "/v1/a2a/lease", wanted)["items"]]

    def renew(self, task: Task) -> None:
        said = {"task": task.id, "token": task.token, "lease_ms": task.lease_ms}
        self._client.call("POST", "/v1/a2a/renew", said)

    def release(self, task: Task) -> None:
        """Gives it back: nothing happened."""
        self._client.call("POST", "/v1/a2a/release", {"task": task.id, "token": task.token})

    def post(self, task: Task, result: Any = None, *, failed: str | None = None) -> None:
        """Says how it ended. The same result twice is fine."""
        said: dict[str, Any] = {"task": task.id, "token": task.token}
        said.update({"status": "failed", "text": failed} if failed is not None else {"status": "completed", "json": result})
        self._client.call("POST", "/v1/a2a/post", said)

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

        A handler that raises `hapax.Rejected` posts a failure. Any other exception leaves the lease alone: nobody knows
        what happened, so a person or the retry gate decides.
        """
        from ._errors import Rejected

        ended = stop or threading.Event()
        counts = {"posted": 0, "refused": 0, "unknown": 0}
        while not ended.is_set():
            for task in self.lease(lease=lease, wait=wait, worker=worker):
                renewing = _Renewing(self, task)
                try:
                    with renewing:
                        result, failed = handler(task), None
                except Rejected as error:
                    result, failed = None, str(error)
                except Exception:
                    counts["unknown"] += 1
                    continue
                try:
                    self.post(task, result, failed=failed)
                    counts["posted"] += 1
                except Refused as error:
                    # The lease was taken back meanwhile; the result is kept as evidence.
                    if getattr(error, "code", None) not in _FENCED:
                        raise
                    counts["refused"] += 1
        return counts


class _Renewing:
    """Renews a lease at a third of its length."""

    def __init__(self, queue: Queue, task: Task) -> None:
        self._queue, self._task = queue, task
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

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
        payload=task.get("payload"),
        sender=task["sender"]["key"],
        attempt=item["attempt"],
        lease_ms=item["lease_ms"],
        forward_key=item["forward_key"],
        token=item["token"],
        lease_id=item["lease_id"],
    )
