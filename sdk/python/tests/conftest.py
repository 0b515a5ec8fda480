"""A real daemon for the tests: the `hapax` that cargo built, or HAPAX_TEST_BINARY."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import hapax


ROOT = Path(__file__).resolve().parents[3]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "hapax"
BINARY = str(Path(os.environ.get("HAPAX_TEST_BINARY", BUILT)).absolute())


class Daemon:
    def __init__(self, directory: Path, port: str = "0", admin: str = "off") -> None:
        self.directory, self.port, self.admin = directory, port, admin
        self.start()

    def start(self) -> None:
        store = f"file:{self.directory / 'data'}"
        flags = ["serve", "--listen", f"127.0.0.1:{self.port}", "--admin", self.admin, "--store", store, "--log", "warn"]
        self.process = subprocess.Popen([BINARY, *flags], stderr=subprocess.PIPE, text=True, cwd=self.directory)
        assert self.process.stderr is not None
        # What is odd about its policies comes first.
        line = self.process.stderr.readline()
        while line.startswith("hapax: warning"):
            line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, line
        self.port = found[1]
        self.url = f"http://127.0.0.1:{self.port}"
        while "  admin  " not in line:
            line = self.process.stderr.readline()
            assert line, "it ended"
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        self.admin_url = found[0] if found else None

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture()
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path)
    yield running
    running.kill()


@pytest.fixture()
def client(daemon: Daemon) -> hapax.Client:
    return hapax.Client(daemon.url)
