"""A broker delivers each message at least once, here several times at once; each is handled once."""

import threading

import hapax

client = hapax.Client()
handled: list[bytes] = []
letters: list[str] = []
# A broker of its own for each run: streams are known by their names.
stream = f"orders-{id(handled)}"


def handler(message: hapax.Message) -> None:
    if not message.payload:
        raise hapax.Undecodable("it is empty")
    handled.append(message.payload)


guard = client.guard("billing", lambda message, why: letters.append(why), ack_wait=30, max_deliveries=5)


def consumer(message: hapax.Message) -> None:
    """As a broker's own client would: again after a while, until it is acknowledged."""
    for _ in range(100):
        settle = guard.handle(message, handler)
        if settle.what != "nak":
            return
        threading.Event().wait(min(settle.after, 0.05))
    raise AssertionError("never acknowledged")


messages = [hapax.Message(stream, 1, b"order 1"), hapax.Message(stream, 2, b"order 2"), hapax.Message(stream, 3)]
deliveries = [threading.Thread(target=consumer, args=(message,)) for message in messages * 4]
for delivery in deliveries:
    delivery.start()
for delivery in deliveries:
    delivery.join()

print(f"put aside for a person: {letters[0]}")
print(f"delivered {len(deliveries)} times, handled: {sorted(handled)}")
assert sorted(handled) == [b"order 1", b"order 2"]
