"""Pays an order three times; money moves once. Needs a daemon: `cargo run --release -- serve`."""

import uuid

import hapax

moved = 0


@hapax.idempotent("payments", key=lambda order, amount: order, effect="irreversible")
def pay(order: str, amount: int) -> dict[str, object]:
    global moved
    moved += amount
    return {"order": order, "amount": amount}


order = f"order-{uuid.uuid4()}"
answers = [pay(order, 4200) for _ in range(3)]
assert answers[0] == answers[1] == answers[2]
assert moved == 4200
try:
    pay(order, 1)
except hapax.Mismatch as refused:
    print(f"another amount under the same key: {refused}")
print(f"asked 3 times, moved {moved}")
