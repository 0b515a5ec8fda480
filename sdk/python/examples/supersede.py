""""Refund 123", then "actually 456". Needs a daemon: `cargo run --release -- serve`."""

import asyncio
import uuid

import hapax

client = hapax.Client()
moved: list[int] = []


async def refund(turn: hapax.Turn, order: int) -> None:
    async with client.once("refunds", f"{turn.group}-{order}", effect="irreversible", turn=turn) as op:
        if op.first:
            moved.append(order)
            op.result = order


async def talk() -> None:
    group = client.group(f"talk-{uuid.uuid4()}")
    old = group.turn
    newer = await group.supersede_async()
    print(f"a newer turn has begun (epoch {newer.turn.epoch}); the older one had started {len(newer.started)} effects")
    try:
        await refund(old, 123)
    except hapax.Superseded as fenced:
        print(f"the late call for 123: {fenced}")
    await refund(newer.turn, 456)
    why = await group.why_not_supersede_async()
    print(f"now it is committed: {why}")
    try:
        await group.supersede_async()
    except hapax.GroupRefused as refused:
        queued = await group.fork_async(f"talk-{uuid.uuid4()}")
        print(f"[{refused.code}] so the next message gets a group of its own, at epoch {queued.turn.epoch}")
    await group.close_async()


asyncio.run(talk())
assert moved == [456], moved
print("refunded: 456, and only that")
