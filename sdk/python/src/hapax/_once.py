"""One thing, done once."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from ._client import Client
from ._errors import FailedBefore, HapaxError, JoinedFailure, NoEffect, NotKept, NotRecorded, Rejected, Retryable
from ._lease import Lease, _in_thread


class Once:
    """The block around an effect. `first` says whether it is to be run; `result` is its answer, for every caller."""

    def __init__(
        self,
        client: Client,
        wanted: Mapping[str, Any],
        path: str = "/v1/operations:begin",
        given: dict[str, Any] | None = None,
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._path = path
        # A ticket that was given out already.
        self._given = given
        self._ticket: dict[str, Any] | None = None
        self._lease: Lease | None = None
        self.result: Any = None

    @property
    def first(self) -> bool:
        """Nobody has done it: run it now."""
        return self._ticket is not None

    @property
    def replayed(self) -> bool:
        """It was done before: `result` is what was recorded."""
        return self._ticket is None

    @property
    def attempt(self) -> int:
        return int(self._told["attempt"])

    @property
    def operation(self) -> str:
        return str(self._told["operation"])

    @property
    def downstream_key(self) -> str:
        """Stable over attempts: forward it to the provider as its idempotency key."""
        return str(self._told.get("downstream_key", ""))

    # Plain.

    def __enter__(self) -> Once:
        self._begun(self._ask())
        if self._ticket is not None:
            self._lease = Lease(self._client, self._ticket).keep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            self._lease.let_go()
        self._end(error)

    # The same, for asyncio. The calls themselves wait in threads, so that the loop does not.

    async def __aenter__(self) -> Once:
        self._begun(await _asked(self._client, self._ask))
        if self._ticket is not None:
            self._lease = Lease(self._client, self._ticket).keep_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            self._lease.let_go()
        # A cancelled task still says how it ended.
        await asyncio.shield(_in_thread(self._client._ends, self._end, error))

    def _ask(self) -> dict[str, Any]:
        if self._given is not None:
            return {**self._given, "verdict": "execute"}
        return self._client.begin(self._wanted, self._path)

    def _begun(self, told: dict[str, Any]) -> None:
        self._told = told
        verdict = told.get("verdict")
        if verdict == "execute":
            self._ticket = told
        elif verdict == "joined_failure":
            raise JoinedFailure("the attempt under way failed; try again with the same key")
        elif told.get("rejected"):
            raise FailedBefore(_value(told["outcome"]))
        else:
            self.result = _value(told["outcome"])

    def _end(self, error: BaseException | None) -> None:
        if self._ticket is None:
            return
        if error is None:
            try:
                body = json.dumps(self.result)
            except (TypeError, ValueError, RecursionError) as unusable:
                # The effect ran: nobody may take this for a failure without one.
                self._try("fail", outcome={"class": "unknown"})
                raise NotRecorded(f"the effect ran, but its result is not JSON: {unusable} [HX0015]") from unusable
            self._say("complete", outcome={"body": body})
        elif isinstance(error, NoEffect):
            self._try("release", why="no_effect")
        elif isinstance(error, Rejected):
            self._say("reject", outcome={"body": json.dumps([str(part) for part in error.args])})
        elif isinstance(error, Retryable):
            self._try("fail", outcome={"class": "retryable_failure"})
        else:
            self._try("fail", outcome={"class": "unknown"})

    def _say(self, verb: str, **said: Any) -> None:
        assert self._ticket is not None
        try:
            self._client.step(self._ticket["operation"], verb, token=self._ticket["token"], **said)
        except HapaxError as error:
            raise NotRecorded(f"the effect ran, but its outcome was not recorded: {error}") from error

    def _try(self, verb: str, **said: Any) -> None:
        """The caller's own exception is what matters. If this does not arrive, the lease lapses, which says the same."""
        try:
            self._say(verb, **said)
        except HapaxError:
            pass


class _Asking:
    """A begin in a thread, whose caller may be cancelled before there is an answer. A right to run it that comes then is
    nobody's, and is given back at once: nothing ran, and no lease has to lapse for that to be known."""

    def __init__(self, client: Client, ask: Callable[[], dict[str, Any]]) -> None:
        self._client, self._ask = client, ask
        self._lock = threading.Lock()
        self._told: dict[str, Any] | None = None
        self._left = False

    def ask(self) -> dict[str, Any]:
        told = self._ask()
        with self._lock:
            self._told = told
            left = self._left
        if left:
            self._give_back(told)
        return told

    def leave(self) -> None:
        with self._lock:
            self._left = True
            told = self._told
        if told is not None:
            self._client._ends.submit(self._give_back, told)

    def _give_back(self, told: dict[str, Any]) -> None:
        if told.get("verdict") != "execute":
            return
        try:
            self._client.step(told["operation"], "release", token=told["token"], why="no_effect")
        except HapaxError:
            # The lease lapses then, as after a crash.
            pass


async def _asked(client: Client, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    asking = _Asking(client, ask)
    try:
        told: dict[str, Any] = await _in_thread(client._begins, asking.ask)
    except asyncio.CancelledError:
        asking.leave()
        raise
    return told


def _value(outcome: Mapping[str, Any]) -> Any:
    """What was recorded: JSON where it is some, other text as it is, other bytes as bytes, a handle as its text."""
    body = outcome.get("body")
    if body is None:
        if outcome.get("body_base64") is not None:
            return base64.b64decode(outcome["body_base64"])
        if outcome.get("handle") is not None:
            return outcome["handle"]
        if "digest" in outcome or outcome.get("length"):
            raise NotKept("it was done before, but its answer is not kept whole [HX0014]")
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body
