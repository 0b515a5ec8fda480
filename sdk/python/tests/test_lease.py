"""The right to run something, in the hands of whoever has it. Each test is named after the accident it prevents."""

from __future__ import annotations

import asyncio
import time

import pytest

import hapax
from conftest import Daemon
from ways import Deaf


def test_a_renewal_that_hears_nothing_does_not_hold_up_the_end(daemon: Daemon, client: hapax.Client) -> None:
    """The connection of the renewals went dead. The end was not said before they had given up, minutes later, when the lease
    had long lapsed."""
    way = Deaf(daemon, ":renew")
    there = hapax.Client(way.url)
    guard = there.guard("billing", lambda message, why: None, ack_wait=6, max_deliveries=5)
    with there.once("payments", "k", effect="irreversible", lease=6) as op:
        assert way.swallowed.wait(30)
        op.result = 1
        ending = time.monotonic()
    assert time.monotonic() - ending < 3
    assert client.explain(op.operation)["state"] == "committed"

    def handler(message: hapax.Message) -> None:
        nonlocal ending
        way.swallowed.clear()
        assert way.swallowed.wait(30)
        ending = time.monotonic()

    assert guard.handle(hapax.Message("orders", 1), handler) == hapax.Settle("ack")
    assert time.monotonic() - ending < 3


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_renewal_that_hears_nothing_is_repeated_before_the_lease_lapses(
    daemon: Daemon, client: hapax.Client, form: str
) -> None:
    way = Deaf(daemon, ":renew", most=1)
    there = hapax.Client(way.url)

    def renewed(operation: str) -> None:
        first = client.explain(operation)["version"]
        until = time.monotonic() + 60
        while (known := client.explain(operation))["version"] == first:
            assert time.monotonic() < until, "it was never renewed"
            time.sleep(0.1)
        # A lapse would be written down too, as a doubt.
        assert known["state"] == "pending", known
        assert way.swallowed.is_set()

    async def story() -> None:
        async with there.once("payments", "k", effect="irreversible", lease=6) as op:
            await asyncio.to_thread(renewed, op.operation)

    if form == "async":
        asyncio.run(story())
    else:
        with there.once("payments", "k", effect="irreversible", lease=6) as op:
            renewed(op.operation)
