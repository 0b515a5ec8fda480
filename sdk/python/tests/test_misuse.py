"""Mistakes in the program that uses the package: refused before anything runs, with what to do instead."""

from __future__ import annotations

import asyncio
import datetime
import http.server
import threading
from typing import Any

import pytest

import hapax


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name
        self.paid: list[str] = []


def test_a_method_is_told_what_its_object_is_to_be_known_by(client: hapax.Client) -> None:
    """Two shops are two objects, and a key that knows only the order would give the one the answer of the other. What an object
    is known by cannot be guessed, so it is asked for."""

    class Guessed(Shop):
        @hapax.idempotent("payments", key=lambda self, order: order, client=client)
        def pay(self, order: str) -> str:
            self.paid.append(order)
            return f"{self.name} paid {order}"

        @hapax.idempotent("payments", key=lambda self, order: order, client=client)
        async def pay_async(self, order: str) -> str:
            return self.pay(order)

    shop = Guessed("north")
    with pytest.raises(hapax.HapaxError, match=r"`self` of .*pay` is not JSON.*`request=lambda self, order: …`"):
        shop.pay("17")
    with pytest.raises(hapax.Misused, match="`self`"):
        asyncio.run(shop.pay_async("17"))
    assert shop.paid == []

    class Told(Shop):
        @hapax.idempotent(
            "payments",
            key=lambda self, order: f"{self.name}-{order}",
            request=lambda self, order: {"shop": self.name, "order": order},
            client=client,
        )
        def pay(self, order: str) -> str:
            self.paid.append(order)
            return f"{self.name} paid {order}"

    north, south = Told("north"), Told("south")
    assert [north.pay("17"), north.pay("17"), south.pay("17")] == ["north paid 17"] * 2 + ["south paid 17"]
    assert (north.paid, south.paid) == (["17"], ["17"])


def test_an_argument_that_is_not_json_is_named(client: hapax.Client) -> None:
    ran: list[int] = []

    @hapax.idempotent("payments", key=lambda order, due=None: order, client=client)
    def pay(order: str, due: object = None) -> None:
        ran.append(1)

    for due in (datetime.date(2030, 1, 1), float("nan"), {"at": {1, 2}}):
        with pytest.raises(hapax.Misused, match="`due` of .*pay` is not JSON"):
            pay("17", due=due)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(hapax.Misused, match="`due`"):
        pay("17", loop)
    assert ran == []
    pay("17", "2030-01-01")
    assert ran == [1]


def test_whatever_is_sent_and_is_not_json_is_an_error_of_the_package(client: hapax.Client) -> None:
    unusable = datetime.date(2030, 1, 1)
    with pytest.raises(hapax.Misused, match="`request` is not JSON.*date"):
        with client.once("payments", "k", request={"due": unusable}):
            raise AssertionError("it must not run")
    with pytest.raises(hapax.Misused, match="`payload` is not JSON"):
        hapax.Queue(client).send("them", "kind", unusable)
    with pytest.raises(hapax.Misused, match="`intent` is not JSON"):
        guard = client.guard("billing", lambda message, why: None, ack_wait=30, max_deliveries=5)
        guard.handle(hapax.Message("orders", 1, intent=unusable), lambda message: None)  # type: ignore[arg-type]
    with pytest.raises(hapax.Misused, match="the key is of type int.*`str`"):
        client.once("payments", 17)  # type: ignore[arg-type]


def test_an_answer_that_is_not_json_leaves_no_one_waiting_for_its_lease(client: hapax.Client) -> None:
    """The call was made, and its body put into the answer as the bytes that came."""
    with pytest.raises(hapax.NotRecorded, match="`answer` is not JSON.*bytes"):
        with client.activity("run-1", "pay", "stripe", effect="irreversible") as call:
            call.answer = hapax.Answer(200, b"{}")  # type: ignore[arg-type]
    assert client.explain(call.operation)["state"] == "in_doubt"


def test_a_client_that_cannot_work_is_not_made() -> None:
    for address in ("127.0.0.1:7878", "ftp://127.0.0.1", "http://127.0.0.1:many", "http://"):
        with pytest.raises(hapax.Misused, match="looks like http://127.0.0.1:7878"):
            hapax.Client(address)
    # As a file has it that ends with a line.
    for key in ("hx_secret\n", "schlüssel"):
        with pytest.raises(hapax.Misused, match="an API key is visible ASCII") as refused:
            hapax.Client(api_key=key)
        assert key.strip() not in str(refused.value)


def test_a_function_whose_result_cannot_be_kept_is_refused_before_it_runs() -> None:
    with pytest.raises(hapax.Misused, match="yields"):

        @hapax.idempotent("payments", key=lambda: "k")
        def several() -> Any:
            yield 1

    with pytest.raises(hapax.Misused, match="yields"):

        @hapax.idempotent("payments", key=lambda: "k")
        async def several_async() -> Any:
            yield 1


def test_something_else_that_answers_is_not_taken_for_the_daemon() -> None:
    """A proxy on the way says no in its own words: JSON, but nothing that the daemon would say."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(502)
            self.send_header("content-length", "9")
            self.end_headers()
            self.wfile.write(b'["sorry"]')

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(hapax.Unreachable, match="502"):
            with hapax.Client(f"http://127.0.0.1:{server.server_port}").once("payments", "k"):
                raise AssertionError("it must not run")
        server.shutdown()


def test_a_callable_object_is_awaited_where_its_call_is_async(client: hapax.Client) -> None:
    ran: list[str] = []

    class Pay:
        async def __call__(self, order: str) -> str:
            ran.append(order)
            return f"paid {order}"

    pay = hapax.idempotent("payments", key=lambda order: order, effect="irreversible", client=client)(Pay())
    for _ in range(2):
        assert asyncio.run(pay("o-1")) == "paid o-1"
    assert ran == ["o-1"]


def test_a_coroutine_that_nobody_awaits_is_named_and_what_ran_before_it_is_not_run_again(client: hapax.Client) -> None:
    charged: list[str] = []

    async def notify(order: str) -> str:
        return f"paid {order}"

    def pay(order: str) -> object:
        charged.append(order)
        return notify(order)

    guarded = hapax.idempotent("payments", key=lambda order: order, effect="irreversible", client=client)(pay)
    with pytest.raises(hapax.Misused, match="async def"):
        guarded("o-1")
    with pytest.raises(hapax.InDoubt):
        guarded("o-1")
    assert charged == ["o-1"]
