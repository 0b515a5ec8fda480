"""Tasks between agents, against a real daemon."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable

import pytest

import hapax

from conftest import Daemon


def test_a_worker_answers_its_sender_and_a_key_is_done_once(daemon: Daemon, client: hapax.Client) -> None:
    planner = hapax.Queue(client, acting_as="planner")
    indexer = hapax.Queue(client, acting_as="indexer")
    handled: list[str] = []
    stop = threading.Event()

    def handler(task: hapax.Task) -> dict[str, object]:
        handled.append(task.forward_key)
        if task.payload == {"page": 2}:
            raise hapax.Rejected("no such page")
        return {"indexed": task.payload}

    counts: dict[str, int] = {}
    worker = threading.Thread(target=lambda: counts.update(indexer.work(handler, stop=stop, wait=0.2)))
    worker.start()
    sent = planner.send("indexer", "index", {"page": 1}, key="page-1")
    assert sent["status"] == "queued"
    planner.send("indexer", "index", {"page": 2}, key="page-2")
    received: dict[str, dict[str, object]] = {}
    while len(received) < 2:
        for delivery in planner.results(wait=5):
            received[delivery["task"]] = delivery["result"]
            planner.ack(delivery["task"])
    again = planner.send("indexer", "index", {"page": 1}, key="page-1")
    stop.set()
    worker.join()
    assert again["status"] == "replayed" and again["result"]["json"] == {"indexed": {"page": 1}}
    assert received[sent["id"]] == {"status": "completed", "json": {"indexed": {"page": 1}}}
    assert sorted(handled) == ["page-1", "page-2"]
    assert counts == {"posted": 2, "refused": 0, "unknown": 0, "released": 0}
    with pytest.raises(hapax.Refused) as refused:
        planner.send("indexer", "index", {"page": 9}, key="page-1")
    assert refused.value.code == "HX0112"


def test_a_lost_lease_is_told_and_a_killed_daemon_hands_nothing_out_twice(daemon: Daemon, client: hapax.Client) -> None:
    planner = hapax.Queue(client, acting_as="planner")
    indexer = hapax.Queue(client, acting_as="indexer")
    sent = planner.send("indexer", "index", {"page": 1})
    [task] = indexer.lease()
    assert indexer.lease() == []
    daemon.kill()
    daemon.start()
    client = hapax.Client(daemon.url)
    planner, indexer = hapax.Queue(client, acting_as="planner"), hapax.Queue(client, acting_as="indexer")
    assert indexer.lease() == [], "handed out twice"
    repair = {
        "task": sent["id"],
        "lease_id": task.lease_id,
        "repair": "requeue",
        "posture": "operator_accepted",
        "reason": "the machine is gone",
    }
    client.call("POST", "/v1/a2a/repair", repair)
    with pytest.raises(hapax.Refused) as refused:
        indexer.post(task, {"late": True})
    assert refused.value.code == "HX0114"
    [again] = indexer.lease()
    assert again.attempt == 2
    indexer.post(again, {"done": True})
    indexer.post(again, {"done": True})
    assert [delivery["result"]["json"] for delivery in planner.results()] == [{"done": True}]


def _stop_after(
    queue: hapax.Queue, handler: Callable[[hapax.Task], object], lease: float = 60.0
) -> tuple[threading.Thread, dict[str, int], threading.Event]:
    stop = threading.Event()
    counts: dict[str, int] = {}
    run = lambda: counts.update(queue.work(handler, stop=stop, wait=0.2, lease=lease))  # noqa: E731
    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    return worker, counts, stop


def test_a_result_survives_a_daemon_that_is_gone_when_it_is_posted(daemon: Daemon, client: hapax.Client) -> None:
    """The handler has run, and the daemon is being restarted for longer than a call repeats itself. The worker ended with an
    error, its result was gone, and the task went stale although it was done."""
    planner = hapax.Queue(client, acting_as="planner")
    sent = planner.send("indexer", "index", {"page": 1})
    handled: list[str] = []

    def handler(task: hapax.Task) -> str:
        handled.append(task.id)
        daemon.kill()
        return "indexed"

    worker, counts, stop = _stop_after(hapax.Queue(hapax.Client(daemon.url), acting_as="indexer"), handler)
    daemon.process.wait()
    time.sleep(2.5)  # Longer than one call goes on.
    daemon.start()
    planner = hapax.Queue(hapax.Client(daemon.url), acting_as="planner")
    [delivery] = planner.results(wait=20)
    assert (delivery["task"], delivery["result"]["json"]) == (sent["id"], "indexed")
    stop.set()
    worker.join()
    assert (handled, counts["posted"]) == ([sent["id"]], 1)


def test_a_worker_outlives_results_that_cannot_be_said_and_gives_back_what_it_did_not_do(client: hapax.Client) -> None:
    """A handler answers with an object that is no JSON: the worker died of it, after the effect. One that says that nothing
    happened was taken for one that nobody knows the end of."""
    planner, indexer = hapax.Queue(client, acting_as="planner"), hapax.Queue(client, acting_as="indexer")
    bad = planner.send("indexer", "bad")["id"]
    back = planner.send("indexer", "back")["id"]
    good = planner.send("indexer", "good")["id"]
    refusals: list[int] = []

    def handler(task: hapax.Task) -> object:
        if task.kind == "bad":
            return object()
        if task.kind == "back" and not refusals:
            refusals.append(task.attempt)
            raise hapax.NoEffect("not now")
        return task.attempt

    worker, counts, stop = _stop_after(indexer, handler)
    results: dict[str, object] = {}
    while len(results) < 2:
        for delivery in planner.results(wait=10):
            results[delivery["task"]] = delivery["result"]["json"]
            planner.ack(delivery["task"])
    stop.set()
    worker.join()
    assert results == {back: 1, good: 1}, "what was given back does not count as an attempt"
    assert counts == {"posted": 2, "refused": 0, "unknown": 1, "released": 1}
    assert client.call("GET", f"/v1/a2a/task?id={bad}")["state"] == "leased", "it ran: nobody may run it again unseen"
    planner.send("planner", "bad")
    [task] = planner.lease()
    with pytest.raises(hapax.NotRecorded):
        planner.post(task, {1, 2})


def test_bytes_reach_the_handler_and_the_sender_as_they_are(client: hapax.Client) -> None:
    """A task of bytes reached the handler as None, which was then posted as done."""
    planner, indexer = hapax.Queue(client, acting_as="planner"), hapax.Queue(client, acting_as="indexer")
    planner.send("indexer", "index", b"\x00\xff")
    worker, _, stop = _stop_after(indexer, lambda task: task.payload + b"!")
    [delivery] = planner.results(wait=10)
    stop.set()
    worker.join()
    assert base64.b64decode(delivery["result"]["base64"]) == b"\x00\xff!"


def test_a_long_task_keeps_its_lease(client: hapax.Client) -> None:
    """Without renewals the retry gate would hand the task to somebody else while its handler still runs."""
    planner, indexer = hapax.Queue(client, acting_as="planner"), hapax.Queue(client, acting_as="indexer")
    sent = planner.send("indexer", "index", key="k")
    gate = {"enable": True, "min_lease_age_ms": 0}
    reports: list[dict[str, object]] = []

    def handler(task: hapax.Task) -> str:
        until = time.monotonic() + 2 * task.lease_ms / 1000
        while time.monotonic() < until:
            reports.append(client.call("POST", "/v1/a2a/retry-stale", gate))
            time.sleep(0.1)
        return "done"

    worker, counts, stop = _stop_after(indexer, handler, lease=4)
    [delivery] = planner.results(wait=30)
    stop.set()
    worker.join()
    assert (delivery["task"], delivery["attempt"], counts["refused"]) == (sent["id"], 1, 0)
    assert [report["requeued"] for report in reports] == [[]] * len(reports)
