"""A client numbers its jobs and submits them until it hears. The daemon is killed while a job is being accepted, and so is the
client; both come back. Each job is accepted once, and a refusal is answered the same again.

It starts a daemon of its own, to kill it: `python job_submit.py target/release/hapax`, or the `hapax` on the path."""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hapax

CLIENT = "worker-7.dc1:4000"


class Daemon:
    def __init__(self, binary: str, directory: Path) -> None:
        self.binary, self.directory, self.port = binary, directory, "0"
        self.start()

    def start(self) -> None:
        flags = ["--listen", f"127.0.0.1:{self.port}", "--admin", "off", "--store", f"file:{self.directory / 'data'}"]
        command = [self.binary, "serve", *flags, "--log", "off"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=self.directory)
        assert self.process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stderr.readline())
        assert found, "the daemon did not start"
        self.url, self.port = found[0], found[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Jobs:
    """Where jobs end up. It knows keys: the same key is the same job."""

    def __init__(self, book: Path) -> None:
        self.book = book
        self.book.touch()

    def accepted(self) -> list[str]:
        return [line.split(maxsplit=1)[1] for line in self.book.read_text().splitlines()]

    def accept(self, key: str, job: str) -> str:
        if key not in self.book.read_text():
            with self.book.open("a") as book:
                book.write(f"{key} {job}\n")
        return f"job {self.accepted().index(job) + 1}"


def submit(client: hapax.Client, key: str, job: str, accept: Callable[[hapax.Once], object], **more: Any) -> hapax.Once:
    """Whoever finds it under way waits for it; whoever hears nothing submits it again, under the same key."""
    while True:
        try:
            with client.job(key, {"do": job}, **more) as op:
                if op.first:
                    op.result = accept(op)
            return op
        except (hapax.Unreachable, hapax.InFlight) as nothing:
            print(f"  no answer yet ({type(nothing).__name__}): submitted again", flush=True)


def the_daemon_dies(daemon: Daemon, jobs: Jobs, report: str) -> None:
    accepting, go_on = threading.Event(), threading.Event()
    answers: list[object] = []

    def accept(op: hapax.Once) -> str:
        accepting.set()
        assert go_on.wait(60)
        return jobs.accept(op.downstream_key, "report")

    def sender() -> None:
        answers.append(submit(hapax.Client(daemon.url), report, "report", accept).result)

    senders = [threading.Thread(target=sender) for _ in range(4)]
    print(f"{report.rsplit(':', 1)[0]} is submitted four times at once:", flush=True)
    for one in senders:
        one.start()
    assert accepting.wait(60)
    daemon.kill()
    print("  the daemon is killed while one of them accepts it", flush=True)
    daemon.start()
    print("  the daemon is back", flush=True)
    go_on.set()
    for one in senders:
        one.join()
    print(f"  all four hear: {answers[0]}", flush=True)
    assert answers == ["job 1"] * 4 and jobs.accepted() == ["report"]


def a_refusal(daemon: Daemon, nowhere: str) -> None:
    client, operations = hapax.Client(daemon.url), set()
    for attempt in range(2):
        try:
            with client.job(nowhere, {"do": "to nowhere"}) as op:
                operations.add(op.operation)
                raise hapax.Rejected("there is no such queue")
        except (hapax.Rejected, hapax.FailedBefore) as refused:
            print(f"refused: {refused}", flush=True)
        if attempt == 0:
            daemon.kill()
            daemon.start()
            print("  the daemon was killed and is back", flush=True)
    assert len(operations) == 1, "it was judged a second time"
    assert [client.job_by_id(one).state for one in operations] == ["rejected"]


def the_client_dies(daemon: Daemon, jobs: Jobs, directory: Path, export: str) -> None:
    again = [sys.executable, __file__, daemon.url, str(directory), export]
    died = subprocess.run([*again, "dies"])
    assert died.returncode == 9
    print("the client died before it could say that it was accepted", flush=True)
    subprocess.run([*again, "lives"], check=True)
    assert jobs.accepted() == ["report", "export"], jobs.accepted()


def client_process(url: str, directory: Path, export: str, fate: str) -> None:
    def accept(op: hapax.Once) -> str:
        answer = Jobs(directory / "book").accept(op.downstream_key, "export")
        if fate == "dies":
            os._exit(9)
        return answer

    # A second acceptance does no harm where jobs end up, so that nobody has to be asked after a crash.
    op = submit(hapax.Client(url), export, "export", accept, effect="idempotent", lease=1.0)
    with hapax.KeyGenerator(directory / "client.keys", CLIENT) as keys:
        print(f"the client is back: {op.result}, attempt {op.attempt}; its next key is {keys.next().rsplit(':', 1)[0]}")
    assert op.attempt == 2


def main(binary: str, directory: Path) -> None:
    jobs, daemon = Jobs(directory / "book"), Daemon(binary, directory)
    try:
        with hapax.KeyGenerator(directory / "client.keys", CLIENT) as keys:
            report, nowhere, export = keys.next(), keys.next(), keys.next()
        the_daemon_dies(daemon, jobs, report)
        a_refusal(daemon, nowhere)
        the_client_dies(daemon, jobs, directory, export)
    finally:
        daemon.kill()
    print("the daemon was killed twice and the client once: each job was accepted once")


if len(sys.argv) == 5:
    client_process(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
else:
    with tempfile.TemporaryDirectory() as made:
        main(os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else "hapax", Path(made))
