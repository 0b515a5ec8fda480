"""A client numbers its jobs and submits them over a line that loses answers; then it restarts. Each job is accepted once, and
a refusal is answered the same again."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import hapax

CLIENT = "worker-7.dc1:4000"
clients = [hapax.Client(), hapax.Client()]
accepted: list[str] = []
answers: list[object] = []


def submit(client: hapax.Client, key: str, job: str) -> object:
    """Waits for whoever is at it, and gets the same answer."""
    with client.once("job", key, request={"job": job}, effect="irreversible", wait=30) as op:
        if op.first:
            if job == "to nowhere":
                raise hapax.Rejected("there is no such queue")
            accepted.append(job)
            op.result = f"job {len(accepted)}"
    return op.result


def submitted(client: hapax.Client, key: str) -> None:
    answers.append(submit(client, key, "report"))


if len(sys.argv) == 3:
    # The client again, after it died: it has its key, and hears what the first one did not.
    answer = submit(clients[0], sys.argv[2], "report")
    with hapax.KeyGenerator(sys.argv[1], CLIENT) as keys:
        print(f"after a restart: {answer}, and the next key is {keys.next().rsplit(':', 1)[0]}")
    assert accepted == [], "it was accepted a second time"
    sys.exit()

with tempfile.TemporaryDirectory() as directory:
    path = Path(directory) / "client.keys"
    with hapax.KeyGenerator(path, CLIENT) as keys:
        report, lost = keys.next(), keys.next()
    senders = [threading.Thread(target=submitted, args=(client, report)) for client in clients * 2]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert accepted == ["report"] and answers == ["job 1"] * 4

    for attempt in range(2):
        try:
            submit(clients[attempt], lost, "to nowhere")
        except (hapax.Rejected, hapax.FailedBefore) as error:
            print(f"refused: {error}")

    subprocess.run([sys.executable, __file__, str(path), report], check=True)

print("submitted 5 times by two clients and a restarted one, accepted once")
