"""Ways to the daemon on which things go wrong."""

from __future__ import annotations

import contextlib
import socket
import threading

from conftest import Daemon


class Way:
    """Passes on what comes. `connections` counts those that went it."""

    def __init__(self, daemon: Daemon) -> None:
        self.connections = 0
        self._port = int(daemon.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def passes(self, connection: int, data: bytes, answer: bool) -> bool | None:
        """Whether it goes on. `None`: the connection is cut."""
        return True

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            self.connections += 1
            # Tests end, and their daemon with them, before all of their threads have.
            with contextlib.suppress(OSError):
                far = socket.create_connection(("127.0.0.1", self._port))
                for source, sink, answers in [(near, far, False), (far, near, True)]:
                    args = (self.connections, source, sink, answers)
                    threading.Thread(target=self._pass_on, args=args, daemon=True).start()

    def _pass_on(self, connection: int, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passes = self.passes(connection, data, answers)
                if passes is None:
                    break
                if passes:
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Held(Way):
    """Answers to requests that hold `what` are held up until they may `go`: the request has arrived, and its caller does not
    know yet."""

    def __init__(self, daemon: Daemon, what: str = "") -> None:
        self.go, self.arrived = threading.Event(), threading.Event()
        self._what = what.encode()
        self._asked: set[int] = set()
        super().__init__(daemon)

    def passes(self, connection: int, data: bytes, answer: bool) -> bool | None:
        if not answer and self._what in data:
            self._asked.add(connection)
        if answer and connection in self._asked:
            self.arrived.set()
            self.go.wait()
        return True


class Losing(Way):
    """Answers can get lost: what was asked for has happened."""

    lost = False

    def passes(self, connection: int, data: bytes, answer: bool) -> bool | None:
        return None if answer and self.lost else True


class Deaf(Way):
    """Connections go dead, and nobody hears of it: from a request that holds `dead` on, nothing is passed on."""

    def __init__(self, daemon: Daemon, dead: str, most: int = 1_000) -> None:
        self.swallowed = threading.Event()
        self._dead, self._left = dead.encode(), most
        self._gone: set[int] = set()
        super().__init__(daemon)

    def passes(self, connection: int, data: bytes, answer: bool) -> bool | None:
        if self._left > 0 and self._dead in data:
            self._left -= 1
            self._gone.add(connection)
            self.swallowed.set()
        return connection not in self._gone
