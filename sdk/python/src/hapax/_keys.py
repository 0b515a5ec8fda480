"""Keys that a client numbers itself, and never twice: `client:sequence:nonce` (AD-40).

The file is the one that `hapax::KeyGenerator` has in Rust, to the byte. Before a number is handed out, a block that holds it
is reserved durably: the new ceiling goes to a second file, which is synced and renamed over the first, and the directory is
synced. After a crash the generator goes on above the ceiling; the rest of the block is lost, which costs nothing. A file
that cannot be read is an error, never a new beginning.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from types import TracebackType
from typing import BinaryIO

from ._errors import HapaxError

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

# How many numbers one sync reserves.
_BLOCK = 1_000
# A client id this long leaves room for the other parts within 255 characters.
_MOST_CLIENT = 200
_MOST_NUMBER = 2**64 - 1
_FIRST_LINE = "hapax-keys 1"


class NoKey(HapaxError):
    """There is no key to give; the message names the file and what to do (HX0031)."""


class KeyGenerator:
    """Makes keys of one client. The sequence never repeats, whatever process dies when; the nonce is new per start.

    Keep the key with the job until its answer is known, and send the job again under the same key.
    """

    def __init__(self, path: str | os.PathLike[str], client_id: str) -> None:
        """Opens the file, or starts one. The client id has to be the one that the file was started with."""
        _check_client(client_id)
        self._path = os.fspath(path)
        self.client_id = client_id
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._lock = _locked(self._path)
        try:
            self._ceiling = self._stored()
        except BaseException:
            self._lock.close()
            raise
        self._last = self._ceiling
        self._poisoned = False
        self._nonce = secrets.token_hex(8)

    def next(self) -> str:
        """The next key. Mostly from memory; one in a thousand waits for the disk."""
        # A fork has the same numbers in memory, and shares the lock. Its guard may be held by a thread that it has not.
        if self._pid != os.getpid():
            raise NoKey(
                f"the generator of {self._path} was opened before a fork; give each process a file and a client id of its own"
                " [HX0031]"
            )
        with self._guard:
            if self._lock.closed:
                raise NoKey(f"the generator of {self._path} was closed; open it again [HX0031]")
            if self._poisoned:
                raise NoKey(
                    f"an earlier write of {self._path} failed, so nothing is promised any more; open the generator again"
                    " [HX0031]"
                )
            if self._last == self._ceiling:
                ceiling = self._ceiling + _BLOCK
                if ceiling > _MOST_NUMBER:
                    raise NoKey(f"client `{self.client_id}` has used up its numbers; take a new client id [HX0031]")
                # A sync that failed once may claim success the next time without having done anything.
                self._poisoned = True
                self._reserve(ceiling)
                self._poisoned = False
                self._ceiling = ceiling
            self._last += 1
            return f"{self.client_id}:{self._last}:{self._nonce}"

    def close(self) -> None:
        """Lets go of the file. The system does so when the process dies. In a fork, the parent keeps it."""
        if self._pid != os.getpid():
            self._lock.close()
            return
        with self._guard:
            self._lock.close()

    def __enter__(self) -> KeyGenerator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stored(self) -> int:
        # The lock beside the file remembers whether keys were ever made from it, so that losing the file is noticed.
        used = self._lock.seek(0, os.SEEK_END) > 0
        try:
            with open(self._path, "rb") as file:
                said = file.read(4_096)
        except FileNotFoundError:
            if used:
                raise NoKey(
                    f"{self._path} is gone although keys were made from it; restore it from a copy, or remove its `.lock`"
                    " too and take a new client id [HX0031]"
                ) from None
            return 0
        except OSError as error:
            raise NoKey(f"cannot read {self._path}: {error}; mend that and open the generator again [HX0031]") from error
        client, ceiling = _parsed(self._path, said)
        if client != self.client_id:
            raise NoKey(
                f"{self._path} belongs to client `{client}`, not to `{self.client_id}`; give each client id a file of its"
                " own [HX0031]"
            )
        if used and ceiling == 0:
            raise _damaged(self._path, "it is empty although keys were made from it")
        return ceiling

    def _reserve(self, ceiling: int) -> None:
        """Makes it durable that numbers up to `ceiling` may have been used."""
        fresh = self._path + ".new"
        try:
            with open(fresh, "wb") as file:
                file.write(_written(self.client_id, ceiling).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
            _sync_directory(self._path)
            if self._lock.seek(0, os.SEEK_END) == 0:
                self._lock.write(b"used\n")
                self._lock.flush()
                os.fsync(self._lock.fileno())
        except OSError as error:
            raise NoKey(f"cannot write {self._path}: {error}; mend that and open the generator again [HX0031]") from error


def _check_client(client: str) -> None:
    if not client:
        rule = "is empty"
    elif len(client) > _MOST_CLIENT:
        rule = "is too long"
    elif not all("!" <= letter <= "~" for letter in client):
        rule = "holds spaces, control or non-ASCII characters"
    else:
        return
    raise NoKey(
        f"the client id {rule}; give every client a stable id of 1-{_MOST_CLIENT} visible ASCII characters [HX0031]"
    )


def _locked(path: str) -> BinaryIO:
    """The lock is a file of its own: the other one is replaced, and a lock on a replaced file guards nothing."""
    if fcntl is None:
        raise NoKey("this system has no file locks, so two processes could make the same keys; use a Unix [HX0031]")
    try:
        lock = os.fdopen(os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    except OSError as error:
        raise NoKey(f"cannot open {path}.lock: {error}; mend that and open the generator again [HX0031]") from error
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise NoKey(
            f"another process makes keys from {path}; give each process a file and a client id of its own [HX0031]"
        ) from None
    return lock


def _written(client: str, ceiling: int) -> str:
    said = f"{_FIRST_LINE}\nclient {client}\nreserved {ceiling}\n"
    return f"{said}check {hashlib.sha256(said.encode()).hexdigest()[:16]}\n"


def _parsed(path: str, said: bytes) -> tuple[str, int]:
    try:
        lines = said.decode().split("\n")
    except UnicodeDecodeError:
        raise _damaged(path, "it is not text") from None
    name, _, number = lines[0].partition(" ")
    if name == "hapax-keys" and number.isascii() and number.isdigit() and int(number) > 1:
        raise NoKey(f"{path} was written by a newer Hapax; use that one [HX0031]")
    if len(lines) < 3 or not lines[1].startswith("client ") or not lines[2].startswith("reserved "):
        raise _damaged(path, "it is no sequence file, or not all of one")
    client, reserved = lines[1].removeprefix("client "), lines[2].removeprefix("reserved ")
    # Written again it has to be the same, to the byte: that checks the digest, and every line besides.
    if not (reserved.isascii() and reserved.isdigit()) or _written(client, int(reserved)).encode() != said:
        raise _damaged(path, "its check does not fit")
    return client, int(reserved)


def _damaged(path: str, what: str) -> NoKey:
    return NoKey(
        f"{path} is damaged ({what}), and a new beginning could repeat keys; restore it from a copy, or remove it and its"
        " `.lock` and take a new client id [HX0031]"
    )


def _sync_directory(path: str) -> None:
    """A rename is durable once its directory is."""
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
