"""A client that is let go of takes nothing with it, and can be taken up again."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import hapax
from conftest import Daemon


def sockets() -> set[str]:
    """Those of this process."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def test_a_closed_client_leaves_no_connection_of_any_thread(daemon: Daemon) -> None:
    before = sockets()
    done, leave = threading.Barrier(4), threading.Event()

    def ask(client: hapax.Client, key: str) -> None:
        with client.once("payments", key) as op:
            op.result = key
        done.wait(10)
        leave.wait(10)

    with hapax.Client(daemon.url) as client:
        threads = [threading.Thread(target=ask, args=(client, f"k{number}")) for number in range(3)]
        for thread in threads:
            thread.start()
        done.wait(10)
        assert len(sockets() - before) == 3
    # The threads are still there, their connections are not.
    assert sockets() - before == set()
    leave.set()
    for thread in threads:
        thread.join()
    with client.once("payments", "k1") as op:
        pass
    assert op.replayed and op.result == "k1"
    client.close()
    assert sockets() - before == set()


def test_a_client_is_a_block_of_asyncio_too(daemon: Daemon) -> None:
    async def ask() -> object:
        async with hapax.Client(daemon.url) as client:
            async with client.once("payments", "k") as op:
                op.result = "done"
            return op.result

    before = {thread for thread in threading.enumerate()}
    assert asyncio.run(ask()) == "done"
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), "its threads have ended"
