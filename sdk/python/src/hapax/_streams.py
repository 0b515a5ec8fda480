"""Calls whose answer is a stream: what is recorded is that they were made and how they ended, and not what came."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._activities import Activity
from ._client import Client
from ._errors import HapaxError, NoEffect, NotRecorded, Retryable, said_by
from ._lease import _in_thread


@dataclass(frozen=True)
class StreamEnd:
    """What is known of a stream that came to its end. A `length` of 0 may mean that it is not kept any more."""

    status: int
    length: int
    digest: str
    """SHA-256 of the body, in hexadecimal."""


class Stream(Activity):
    """The block around a call whose answer is a stream.

    If `first`, make it and give its chunks to `passing`. Otherwise `finished` says what it was, or `answer` what the provider
    said instead of a stream; where `again` is set it may be made again for its body, which `passing` then records nothing of.
    A block that is left before the end was recorded says that the stream broke off.
    """

    def __init__(
        self, client: Client, run: str, node: str, provider: str, ordinal: int, more: Mapping[str, Any]
    ) -> None:
        super().__init__(client, run, node, provider, ordinal, more)
        self._wanted["stream"] = True
        self.finished: StreamEnd | None = None

    @property
    def again(self) -> bool:
        """It ended before, and does no harm when it is made again."""
        return self._told.get("verdict") == "again"

    def passing(self, chunks: Iterable[bytes], status: int = 200) -> Iterator[bytes]:
        """The chunks as they come. The end is recorded before the last of them is given on."""
        digest, length, held = hashlib.sha256(), 0, b""
        for chunk in chunks:
            if held:
                yield held
            digest.update(chunk)
            length += len(chunk)
            held = chunk
        self._whole(status, length, digest.hexdigest())
        if held:
            yield held

    async def passing_async(self, chunks: AsyncIterable[bytes], status: int = 200) -> AsyncIterator[bytes]:
        digest, length, held = hashlib.sha256(), 0, b""
        async for chunk in chunks:
            if held:
                yield held
            digest.update(chunk)
            length += len(chunk)
            held = chunk
        await _in_thread(self._client._ends, self._whole, status, length, digest.hexdigest())
        if held:
            yield held

    def _forget(self) -> None:
        super()._forget()
        self.finished = None

    def _begun(self, told: dict[str, Any]) -> None:
        super()._begun(told)
        if told["verdict"] == "finished":
            self.finished = StreamEnd(told["status"], told["length"], told["digest"])

    def _whole(self, status: int, length: int, digest: str) -> None:
        if not self.first:
            return
        try:
            self._ended(whole={"status": status, "length": length, "digest": digest})
        except HapaxError as refused:
            raise NotRecorded(f"the stream came, but its end was not taken: {refused}") from refused
        self.finished = StreamEnd(status, length, digest)

    def _end(self, error: BaseException | None) -> None:
        if not self.first or self.finished is not None:
            return
        if self.answer is not None or isinstance(error, (NoEffect, Retryable)):
            return super()._end(error)
        why = "its block was left before its end" if error is None else said_by(error)
        try:
            # At most 1024 bytes of it are taken.
            self._ended(broken=why.encode()[:1000].decode(errors="ignore"))
        except HapaxError as refused:
            if error is None:
                raise NotRecorded(f"the stream broke off, and that was not taken: {refused}") from refused

    def _ended(self, **how: Any) -> None:
        self._client.call("POST", f"/v1/activities/{self.operation}:end", {"token": self._told["token"], **how})
