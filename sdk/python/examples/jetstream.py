"""A bus that delivers at least once, consumers that handle once: NATS JetStream, asked about each message by the daemon.

It needs `nats-py` (`pip install './sdk/python[nats]'`) and a server with JetStream: NATS_URL, or one on this machine."""

import asyncio
import os
from secrets import token_hex

import nats
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig

import hapax

CONSUMERS = ("one", "two", "three")
shipped: list[str] = []
deliveries: list[str] = []
settled: set[tuple[str, int]] = set()
truck_asked: list[int] = []


async def ship(message: hapax.Message) -> None:
    order = message.payload.decode()
    number = order.split(",")[0]
    if not number.isdigit():
        raise hapax.Undecodable(f"{order!r} has no number")
    if order.endswith("slowly"):
        truck_asked.append(1)
        if len(truck_asked) == 1:
            raise hapax.Retryable("the truck is out")
    print(f"  >> order {number} is shipped")
    shipped.append(number)


async def tell(delivery: Msg, settle: hapax.Settle) -> None:
    if settle.what == "ack":
        await delivery.ack()
    elif settle.what == "terminate":
        await delivery.term()
    else:
        # Whoever finds it in somebody else's hands is told to come back when those are surely empty. We are impatient.
        await delivery.nak(min(settle.after, 0.5))


async def main() -> None:
    client = hapax.Client()
    connection = await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    bus = connection.jetstream()
    # A stream of its own for each run: the records know streams by their names.
    stream = f"ORDERS-{token_hex(4)}"
    orders, dead = f"{stream}.new", f"{stream}.dead"
    await bus.add_stream(name=stream, subjects=[orders, dead])

    async def put_aside(message: hapax.Message, why: str) -> None:
        # Only what a stream has stored is safe.
        await bus.publish(dead, message.payload, headers={"Hapax-Why": why})

    async def consume(name: str, all_settled: asyncio.Event) -> None:
        config = ConsumerConfig(ack_wait=2, max_deliver=50, filter_subject=orders)
        pulled = await bus.pull_subscribe(orders, durable=f"{stream}-{name}", stream=stream, config=config)
        # Under one name: what one of them has handled, no other handles again.
        guard = client.guard(f"{stream}-shipping", put_aside, ack_wait=2, max_deliveries=50, effect="irreversible")
        broken = name == "two"

        async def take(delivery: Msg) -> None:
            nonlocal broken
            about = delivery.metadata
            sequence = about.sequence.stream
            intent = (delivery.headers or {}).get("Hapax-Intent")
            message = hapax.Message(stream, sequence, delivery.data, intent, about.num_delivered)
            settle = await guard.handle_async(message, ship, delivery.in_progress)
            deliveries.append(name)
            print(f"  {name}: message {sequence}, delivery {about.num_delivered}: {settle.what}")
            if broken and settle.what == "ack":
                broken = False
                print(f"  {name}: the line breaks before the server hears it; message {sequence} will come again")
                return
            await tell(delivery, settle)
            if settle.what != "nak":
                settled.add((name, sequence))
            if len(settled) == len(said) * len(CONSUMERS):
                all_settled.set()

        while not all_settled.is_set():
            try:
                batch = await pulled.fetch(8, timeout=0.5)
            except asyncio.TimeoutError:
                continue
            await asyncio.gather(*(take(delivery) for delivery in batch))

    print("A nervous shop says one order three times, one that needs patience once, and one that nobody can read:")
    said = [("17", "17"), ("17", "17"), ("17", "17"), ("18", "18, slowly"), ("19", "%$#!")]
    for intent, order in said:
        stored = await bus.publish(orders, order.encode(), headers={"Hapax-Intent": intent})
        print(f"  message {stored.seq}: order {order!r}")

    print("Three consumers are delivered everything, all at once:")
    all_settled = asyncio.Event()
    await asyncio.wait_for(asyncio.gather(*(consume(name, all_settled) for name in CONSUMERS)), 120)

    letter = await bus.get_last_msg(stream, dead)
    print(f"put aside for a person: {(letter.headers or {})['Hapax-Why']}")
    await bus.delete_stream(stream)
    await connection.close()
    assert len(deliveries) > len(said) * len(CONSUMERS), "one of them came again"
    assert sorted(shipped) == ["17", "18"], shipped
    print(f"five messages, three consumers, more than {len(said) * len(CONSUMERS)} deliveries: {len(shipped)} parcels left the house")


asyncio.run(main())
