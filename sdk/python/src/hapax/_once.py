"""One thing, done once."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ._block import Block
from ._client import Client
from ._errors import FailedBefore, HapaxError, JoinedFailure, NoEffect, NotKept, NotRecorded, Rejected, Retryable


class Once(Block):
    """The block around an effect. `first` says whether it is to be run; `result` is its answer, for every caller."""

    def __init__(
        self,
        client: Client,
        wanted: Mapping[str, Any],
        path: str = "/v1/operations:begin",
        given: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(client)
        self._wanted = wanted
        self._path = path
        # A ticket that was given out already.
        self._given = given
        self.result: Any = None

    @property
    def replayed(self) -> bool:
        """It was done before: `result` is what was recorded."""
        return self._told.get("verdict") == "replay"

    @property
    def attempt(self) -> int:
        return int(self._known("attempt"))

    @property
    def downstream_key(self) -> str:
        """Stable over attempts: forward it to the provider as its idempotency key."""
        return str(self._told.get("downstream_key", ""))

    def _forget(self) -> None:
        self.result = None

    def _ask(self) -> dict[str, Any]:
        if self._given is not None:
            return {**self._given, "verdict": "execute"}
        return self._client.begin(self._wanted, self._path)

    def _begun(self, told: dict[str, Any]) -> None:
        super()._begun(told)
        if self.first:
            return
        if told.get("verdict") == "joined_failure":
            raise JoinedFailure("the attempt under way failed; try again with the same key")
        if told.get("rejected"):
            raise FailedBefore(_value(told["outcome"]))
        self.result = _value(told["outcome"])

    def _end(self, error: BaseException | None) -> None:
        if not self.first:
            return
        if error is None:
            try:
                body = json.dumps(self.result)
            except (TypeError, ValueError, RecursionError) as unusable:
                # The effect ran: nobody may take this for a failure without one.
                self._try("fail", outcome={"class": "unknown"})
                raise NotRecorded(f"the effect ran, but its result is not JSON: {unusable} [HX0015]") from unusable
            # As later callers will get it, so that nobody comes to rely on what JSON does not keep.
            self.result = json.loads(body)
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
        try:
            self._client.step(self.operation, verb, token=self._told["token"], **said)
        except HapaxError as error:
            raise NotRecorded(f"the effect ran, but its outcome was not recorded: {error}") from error

    def _try(self, verb: str, **said: Any) -> None:
        """The caller's own exception is what matters. If this does not arrive, the lease lapses, which says the same."""
        try:
            self._say(verb, **said)
        except HapaxError:
            pass


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
