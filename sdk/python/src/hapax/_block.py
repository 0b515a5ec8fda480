"""What all blocks do: ask, keep the lease while they run, and say how it ended."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._client import Client
from ._errors import HapaxError, Misused, NotRecorded
from ._lease import Lease, _in_thread

if TYPE_CHECKING:
    from typing_extensions import Self


class Block:
    """A block may be entered again, and asks again then: nothing of an earlier time is left."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: dict[str, Any] = {}
        self._lease: Lease | None = None
        # Held from before it is asked for until its end is said.
        self._in_use = threading.Lock()

    @property
    def first(self) -> bool:
        """Nobody has done it: do it now."""
        return self._told.get("verdict") == "execute"

    @property
    def operation(self) -> str:
        return str(self._known("operation"))

    # Plain.

    def __enter__(self) -> Self:
        self._take()
        try:
            self._begun(self._ask())
            if self.first:
                self._lease = Lease(self._client, self._told).keep()
        except BaseException:
            # What it was given it cannot keep: there may be no more threads.
            if self.first:
                _give_back(self._client, self._told)
                self._told = {}
            self._in_use.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._left_by_a_fork(error):
            return
        if self._lease is not None:
            self._lease.let_go()
        self._leave(error)

    # The same, for asyncio. The calls themselves wait in threads, so that the loop does not.

    async def __aenter__(self) -> Self:
        self._take()
        try:
            self._begun(await _asked(self._client, self._ask))
            if self.first:
                self._lease = Lease(self._client, self._told).keep_async()
        except BaseException:
            self._in_use.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._left_by_a_fork(error):
            return
        if self._lease is not None:
            self._lease.let_go()
        # A cancelled task still says how it ended.
        await asyncio.shield(_in_thread(self._client._ends, self._leave, error))

    # What each kind of block does in its own way.

    def _forget(self) -> None:
        """Nothing that was set at an earlier time is to be taken for what is set now."""

    def _ask(self) -> dict[str, Any]:
        raise NotImplementedError

    def _begun(self, told: dict[str, Any]) -> None:
        self._told = told

    def _end(self, error: BaseException | None) -> None:
        raise NotImplementedError

    def _take(self) -> None:
        if not self._in_use.acquire(blocking=False):
            raise Misused("this block is in use; give each thread and each task a block of its own, with the same key")
        self._pid = os.getpid()
        self._told, self._lease = {}, None
        self._forget()

    def _left_by_a_fork(self, error: BaseException | None) -> bool:
        """A process that is forked in the block comes out of it, too. It has no say: whoever entered goes on with the effect."""
        if self._pid == os.getpid():
            return False
        if error is None and self.first:
            raise NotRecorded("this process was forked within the block; how it ended is said by the one that entered it")
        return True

    def _leave(self, error: BaseException | None) -> None:
        try:
            self._end(error)
        finally:
            self._in_use.release()

    def _known(self, name: str) -> Any:
        if name not in self._told:
            raise Misused(f"`{name}` is not known before the daemon has answered: enter the block first")
        return self._told[name]


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
            _give_back(self._client, told)
        return told

    def leave(self) -> None:
        with self._lock:
            self._left = True
            told = self._told
        if told is not None:
            self._client._ends.submit(_give_back, self._client, told)


def _give_back(client: Client, told: dict[str, Any]) -> None:
    """A right to run something that did not run."""
    if "token" not in told:
        return
    try:
        client.step(told["operation"], "release", token=told["token"], why="no_effect")
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
