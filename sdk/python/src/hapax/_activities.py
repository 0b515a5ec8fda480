"""Calls that a run makes to providers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ._block import Block
from ._client import Client, _times
from ._errors import HapaxError, JoinedFailure, Misused, NoEffect, NotRecorded, Retryable
from ._groups import Turn


@dataclass(frozen=True)
class Answer:
    """What a provider answered. A final refusal is an answer like any other."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class EffectOfRun:
    operation: str
    state: str
    effect: str
    attempt: int
    begun_at: int


Effects = tuple[EffectOfRun, ...]


def effects_of_run(client: Client, run: str) -> Effects:
    told = client.call("GET", f"/v1/runs/{quote(run, safe='')}/effects")
    return tuple(EffectOfRun(**effect) for effect in told["effects"])


class Activity(Block):
    """The block around one call: make it if `first`, and set `answer`. Later callers get the same answer."""

    def __init__(
        self, client: Client, run: str, node: str, provider: str, ordinal: int, more: Mapping[str, Any]
    ) -> None:
        super().__init__(client)
        self._provider = provider
        wanted: dict[str, Any] = {"run": run, "node": node, "provider": provider, "ordinal": ordinal}
        for name in ("business_key", "recipe", "request", "effect", "compensation"):
            if more.get(name) is not None:
                wanted[name] = more[name]
        turn = more.get("turn")
        if isinstance(turn, Turn):
            wanted["turn"] = turn.wire()
        self._wanted = {**wanted, **_times(more.get("lease"), more.get("wait"))}
        self.answer: Answer | None = None

    @property
    def key(self) -> str:
        """What the provider is to see: the same over all attempts."""
        return str(self._told.get("key", ""))

    @property
    def headers(self) -> dict[str, str]:
        """What to set on the call that has the effect, and on no other."""
        header = self._told.get("header")
        return {} if header is None else {str(header): self.key}

    def _forget(self) -> None:
        self.answer = None

    def _ask(self) -> dict[str, Any]:
        return self._client.begin(self._wanted, "/v1/activities:claim")

    def _begun(self, told: dict[str, Any]) -> None:
        super()._begun(told)
        if told["verdict"] == "joined_failure":
            raise JoinedFailure("the call under way failed; try again")
        if told["verdict"] == "replay":
            said = told["answer"]
            headers = tuple((name, value) for name, value in said["headers"])
            self.answer = Answer(said["status"], said["body"], headers)

    def _end(self, error: BaseException | None) -> None:
        if not self.first:
            return
        operation, token = self.operation, self._told["token"]
        try:
            if error is None and self.answer is not None:
                said = {"status": self.answer.status, "body": self.answer.body, "headers": list(self.answer.headers)}
                path = f"/v1/activities/{operation}:answer"
                self._client.call("POST", path, {"token": token, "provider": self._provider, "answer": said})
            elif isinstance(error, NoEffect):
                self._client.step(operation, "release", token=token, why="no_effect")
            elif isinstance(error, Retryable):
                self._client.step(operation, "fail", token=token)
            else:
                self._client.step(operation, "fail", token=token, outcome={"class": "unknown"})
        except HapaxError as refused:
            if isinstance(refused, Misused):
                # The call was made: whoever asks next need not wait for the lease to hear that nobody knows its answer.
                with contextlib.suppress(HapaxError):
                    self._client.step(operation, "fail", token=token, outcome={"class": "unknown"})
            if error is None:
                raise NotRecorded(f"the call was made, but its answer was not taken: {refused}") from refused
