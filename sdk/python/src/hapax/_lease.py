"""The lease of an attempt, kept while its block runs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor
from collections.abc import Callable, Mapping
from typing import Any

from ._client import Client
from ._errors import HapaxError


class Lease:
    """Renews at a third of its length: in a thread, or as a task where there is a loop."""

    def __init__(self, client: Client, ticket: Mapping[str, Any]) -> None:
        self._client, self._ticket = client, ticket
        self._length = float(ticket["lease_ms"]) / 1000
        self._pause = max(0.001, self._length / 3)
        self._stop = threading.Event()
        self._renewing: asyncio.Task[None] | None = None

    def keep(self) -> Lease:
        threading.Thread(target=self._keep, daemon=True, name="hapax-renew").start()
        return self

    def keep_async(self) -> Lease:
        self._renewing = asyncio.create_task(self._keep_async())
        return self

    def let_go(self) -> None:
        """Nobody waits for a renewal under way: it may hear nothing, and after the end it does no harm."""
        self._stop.set()
        if self._renewing is not None:
            self._renewing.cancel()

    def _renew(self) -> None:
        try:
            self._client.renew(self._ticket["operation"], self._ticket["token"], self._length)
        except HapaxError:
            # No reason to stop an effect under way: its end may still be told.
            pass

    def _keep(self) -> None:
        while not self._stop.wait(self._pause):
            self._renew()

    async def _keep_async(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await _in_thread(self._client._ends, self._renew)


async def _in_thread(threads: Executor, call: Callable[..., Any], *args: Any) -> Any:
    """Not in the loop's own threads: there, those who wait for an answer would keep the one who has it from giving it."""
    return await asyncio.get_running_loop().run_in_executor(threads, call, *args)
