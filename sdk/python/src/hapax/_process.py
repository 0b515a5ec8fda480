"""What belongs to one process and is of no use in a fork of it."""

from __future__ import annotations

import http.client
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor


class Process:
    """The connections and the threads of a client, in the process that made them."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._local = threading.local()
        self._all: weakref.WeakSet[http.client.HTTPConnection] = weakref.WeakSet()
        self._adding = threading.Lock()
        # For asyncio. Begins may wait for long; renewals and ends must never wait for them. Threads come as needed.
        self.begins = ThreadPoolExecutor(max_workers=256, thread_name_prefix="hapax-begin")
        self.ends = ThreadPoolExecutor(max_workers=32, thread_name_prefix="hapax-end")

    def here(self) -> Process:
        """This one, or a new one in a fork: there the connection is still the parent's, who would get our answers and we its,
        and the threads are gone. No lock is taken: a fork may have copied one that is held."""
        if self._pid == os.getpid():
            return self
        # Only our end of it: the parent's stays open.
        self.close()
        return Process()

    @property
    def connection(self) -> http.client.HTTPConnection | None:
        """That of this thread."""
        return getattr(self._local, "connection", None)

    @connection.setter
    def connection(self, connection: http.client.HTTPConnection) -> None:
        self._local.connection = connection
        with self._adding:
            self._all.add(connection)

    def close(self) -> None:
        connection = self.connection
        self._local.connection = None
        if connection is not None:
            connection.close()

    def end(self) -> None:
        """Those of all threads. What asyncio has under way goes on, over connections of its own."""
        self.begins.shutdown(wait=False)
        self.ends.shutdown(wait=False)
        with self._adding:
            connections = list(self._all)
        for connection in connections:
            connection.close()
