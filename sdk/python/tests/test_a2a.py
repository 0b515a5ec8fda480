"""Tasks between agents, against a real daemon."""

from __future__ import annotations

import threading

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
    assert counts == {"posted": 2, "refused": 0, "unknown": 0}
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
