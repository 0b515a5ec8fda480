"""A turn is restarted while it runs, and both come to the same refund. Needs a daemon: `cargo run --release -- serve`."""

import threading
import uuid

import hapax

REFUND = {
    "name": "refund",
    "business_key": "order:{args.order}",
    "narrative": ["/why"],
    "effect": "irreversible",
}

client = hapax.Client()
group = client.group(f"talk-{uuid.uuid4()}")
refunds: list[int] = []
answers: list[str] = []


def ask(why: str) -> None:
    with client.tool(REFUND, {"order": 12345, "why": why}, turn=group.turn) as op:
        if op.first:
            refunds.append(12345)
            op.result = f"refund no. {len(refunds)} of order 12345"
    answers.append(op.result)
    print(f"{why!r}: {op.result}{' (recorded)' if op.replayed else ''}")


callers = [threading.Thread(target=ask, args=(why,)) for why in ("it broke", "The item arrived broken.")]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
assert len(refunds) == 1 and answers[0] == answers[1]

other = client.group(f"talk-{uuid.uuid4()}")
with client.tool(REFUND, {"order": 12345, "why": "another conversation"}, turn=other.turn) as op:
    assert op.first
    op.result = "refund in another conversation"
print("asked twice in one conversation: one refund, both got the same answer")
