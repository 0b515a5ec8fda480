"""The daemon's API, one method a call."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ._errors import Misused, Unreachable, refusal
from ._json import encoded
from ._process import Process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._activities import Activity, Effects
    from ._beats import Session
    from ._bus import DeadLetters, Guard
    from ._groups import Group, Turn
    from ._jobs import Job, JobView
    from ._memos import Memos
    from ._once import Once
    from ._streams import Stream

Effect = Literal["pure", "idempotent", "compensatable", "irreversible", "unsafe"]

_TRIES = 4
_FIRST_PAUSE = 0.05
# Seconds for an answer to come, once the daemon has waited as long as it was asked to.
_BEYOND_WAIT = 15.0


class Client:
    """A daemon, and who we are to it. It may be shared by threads and by forks: each has a connection of its own."""

    def __init__(self, url: str | None = None, api_key: str | None = None, timeout: float = 75.0) -> None:
        address = url or os.environ.get("HAPAX_URL") or "http://127.0.0.1:7878"
        self._https, self._host, self._port = _place(address)
        self._key = api_key if api_key is not None else os.environ.get("HAPAX_API_KEY")
        if self._key and not all("!" <= letter <= "~" for letter in self._key):
            raise Misused("an API key is visible ASCII: this one holds something else, perhaps the end of a line")
        self._timeout = timeout
        self._process = Process()

    def __repr__(self) -> str:
        return f"Client({self._host}:{self._port})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_why: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of connections and threads. A client that is used again afterwards opens new ones."""
        ended, self._process = self._here, Process()
        ended.end()

    def once(
        self,
        surface: str,
        key: str,
        *,
        request: Any = None,
        effect: Effect = "unsafe",
        scope: Mapping[str, str] | None = None,
        lease: float | None = None,
        wait: float | None = None,
        turn: Turn | None = None,
        compensation: Mapping[str, Any] | None = None,
    ) -> Once:
        """Something to be done once, as a block: `with client.once(…) as op`. In a `turn` it is not started any more once a
        newer turn has begun; `compensation` names what undoes it (see `undone_by`)."""
        from ._once import Once

        wanted = _wanted(surface, key, request, effect, scope, lease, wait)
        if turn is not None:
            wanted["turn"] = turn.wire()
        if compensation is not None:
            wanted["compensation"] = compensation
        return Once(self, wanted)

    def tool(
        self,
        declaration: Mapping[str, Any],
        args: Mapping[str, Any],
        *,
        turn: Turn | None = None,
        lease: float | None = None,
        wait: float | None = None,
    ) -> Once:
        """A tool that a model calls, as a block. Its declaration says which arguments name the call."""
        from ._once import Once

        wanted: dict[str, Any] = {"declaration": declaration, "args": args, **_times(lease, wait)}
        if turn is not None:
            wanted["turn"] = turn.wire()
        return Once(self, wanted, "/v1/tools:begin")

    def group(self, name: str) -> Group:
        """A conversation attempt, a run, a saga: made, or found. `group.turn` is its current turn."""
        from ._groups import Group

        return Group.made(self, self.call("POST", "/v1/groups", {"name": name}))

    def group_by_id(self, group: str) -> Group:
        from ._groups import Group

        return Group.found(self, group)

    def activity(self, run: str, node: str, provider: str, *, ordinal: int = 0, **more: Any) -> Activity:
        """A call that a run makes to a provider, as a block. `more`: business_key, recipe, request, effect, turn,
        compensation, lease, wait."""
        from ._activities import Activity

        return Activity(self, run, node, provider, ordinal, more)

    def stream(self, run: str, node: str, provider: str, *, ordinal: int = 0, **more: Any) -> Stream:
        """As `activity`, for a call whose answer is a stream: its start and its end are recorded, and not its body."""
        from ._streams import Stream

        return Stream(self, run, node, provider, ordinal, more)

    def effects_of_run(self, run: str) -> Effects:
        """What a run did outside: claimed, completed, released, escaped."""
        from ._activities import effects_of_run

        return effects_of_run(self, run)

    def session(self, name: str) -> Session:
        """The beats of a session: messages that make one turn, in whatever order and however often they arrive."""
        from ._beats import Session

        return Session(self, name)

    def memos(self, reuse_decl: Mapping[str, Mapping[str, Any]]) -> Memos:
        """Computations that may be used again, as declared."""
        from ._memos import Memos

        return Memos(self, reuse_decl)

    def guard(self, consumer: str, dead_letters: DeadLetters, *, ack_wait: float, **more: Any) -> Guard:
        """Guards a consumer of a broker that delivers at least once. `more`: max_deliveries, back_offs, retention, effect."""
        from ._bus import Guard

        return Guard(self, consumer, dead_letters, ack_wait=ack_wait, **more)

    def job(
        self,
        key: str,
        job: Any,
        *,
        effect: Effect = "unsafe",
        lease: float | None = None,
        wait: float | None = None,
    ) -> Job:
        """A job, submitted under the key that this client gave it (see `KeyGenerator`), as a block around accepting it."""
        from ._jobs import Job

        return Job(self, {"key": key, "job": job, "effect": effect, **_times(lease, wait)}, "/v1/jobs:submit")

    def job_by_id(self, operation: str) -> JobView:
        from ._jobs import job_by_id

        return job_by_id(self, operation)

    def begin(self, wanted: Mapping[str, Any], path: str = "/v1/operations:begin") -> dict[str, Any]:
        """Asks for the right to run it. The nonce is fresh, and the same in every repetition of this one call."""
        return self.call("POST", path, {**wanted, "nonce": secrets.token_hex(16)})

    def step(self, operation: str, verb: str, **said: Any) -> dict[str, Any]:
        return self.call("POST", f"/v1/operations/{operation}:{verb}", said)

    def renew(self, operation: str, token: str, lease: float) -> None:
        """Within the lease, four times if need be: a connection that went dead is not to cost it."""
        self.call("POST", f"/v1/operations/{operation}:renew", {"token": token}, max(1.0, lease / 6))

    def explain(self, operation: str) -> dict[str, Any]:
        return self.call("GET", f"/v1/operations/{operation}")

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """Sends it until there is an answer, a few times: nonce and token make every repetition harmless."""
        data = None if body is None else encoded(body)
        if timeout is None:
            timeout = self._timeout
            wait = None if body is None else body.get("wait_ms")
            # Whoever wants to wait is let: an answer that is not there yet is none that got lost.
            if isinstance(wait, int) and wait > 0:
                timeout = max(timeout, wait / 1000 + _BEYOND_WAIT)
        pause = _FIRST_PAUSE
        for left in reversed(range(_TRIES)):
            try:
                status, answer = self._exchange(method, path, data, timeout)
            except (OSError, http.client.HTTPException) as error:
                self._here.close()
                if left == 0:
                    raise Unreachable(f"{self._host}:{self._port} gave no answer: {error}") from error
            else:
                if status < 300:
                    return answer
                if status != 503 or left == 0:
                    raise refusal({"status": status, **answer})
            time.sleep(pause)
            pause *= 4
        raise AssertionError("unreachable")

    def _exchange(self, method: str, path: str, data: bytes | None, timeout: float) -> tuple[int, dict[str, Any]]:
        connection = self._connection(timeout)
        headers = {} if data is None else {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        whole = True
        try:
            connection.request(method, path, body=data, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # It was refused before all of it was sent; why may be there to be read.
            whole = False
        response = connection.getresponse()
        text = response.read()
        if not whole:
            self._here.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise http.client.HTTPException(f"status {response.status}, and nothing that a daemon says")
        return response.status, answer

    @property
    def _here(self) -> Process:
        known = self._process
        here = known.here()
        # Only in a fork: whoever closes the client meanwhile has put another one there.
        if here is not known:
            self._process = here
        return here

    @property
    def _begins(self) -> Executor:
        return self._here.begins

    @property
    def _ends(self) -> Executor:
        return self._here.ends

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        here = self._here
        connection = here.connection
        if connection is None:
            kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
            connection = here.connection = kind(self._host, self._port)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection


def _place(address: str) -> tuple[bool, str, int | None]:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise Misused("the address of a daemon looks like http://127.0.0.1:7878")
    return parts.scheme == "https", host, port


def _wanted(
    surface: str,
    key: str,
    request: Any,
    effect: str,
    scope: Mapping[str, str] | None,
    lease: float | None,
    wait: float | None,
) -> dict[str, Any]:
    if not isinstance(key, str):
        raise Misused(f"the key is of type {type(key).__name__}; give it as text, with `str` perhaps")
    wanted: dict[str, Any] = {"surface": surface, "key": key, "effect": effect}
    if request is not None:
        wanted["request"] = request
    if scope:
        wanted["scope"] = [{"label": label, "value": value} for label, value in scope.items()]
    return {**wanted, **_times(lease, wait)}


def _times(lease: float | None, wait: float | None) -> dict[str, int]:
    times: dict[str, int] = {}
    if lease is not None:
        times["lease_ms"] = max(1, round(lease * 1000))
    if wait is not None:
        times["wait_ms"] = max(0, round(wait * 1000))
    return times
