"""Jobs are submitted over a line that loses answers: each is accepted once, and a refusal is answered the same again."""

import secrets
import threading

import hapax

clients = [hapax.Client(), hapax.Client()]
accepted: list[str] = []
answers: list[object] = []
run = secrets.token_hex(4)


def submit(client: hapax.Client, key: str, job: str) -> object:
    """Waits for whoever is at it, and gets the same answer."""
    with client.once("job", key, request={"job": job}, effect="irreversible", wait=30) as op:
        if op.first:
            if job == "to nowhere":
                raise hapax.Rejected("there is no such queue")
            accepted.append(job)
            op.result = f"job {len(accepted)}"
    return op.result


def submitted(client: hapax.Client) -> None:
    answers.append(submit(client, f"report-{run}", "report"))


senders = [threading.Thread(target=submitted, args=(client,)) for client in clients * 2]
for sender in senders:
    sender.start()
for sender in senders:
    sender.join()
assert accepted == ["report"] and answers == ["job 1"] * 4

for attempt in range(2):
    try:
        submit(clients[attempt], f"lost-{run}", "to nowhere")
    except (hapax.Rejected, hapax.FailedBefore) as error:
        print(f"refused: {error}")

print("submitted 4 times by two clients, accepted once")
