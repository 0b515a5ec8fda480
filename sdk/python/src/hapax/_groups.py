"""Groups and turns: who may still start something, and what a supersede is told."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._block import _asked
from ._client import Client, Effect, _times
from ._errors import NoEffect, Rejected, Retryable
from ._lease import _in_thread
from ._once import Once

# How long an inverse that failed for now rests.
_AGAIN = 0.2


@dataclass(frozen=True)
class Turn:
    """One epoch of a group: what calls are made in."""

    group: str
    epoch: int

    def wire(self) -> dict[str, Any]:
        return {"group": self.group, "epoch": self.epoch}


@dataclass(frozen=True)
class Reported:
    """A member of an older turn that may have started. It is not stopped."""

    operation: str
    effect: str
    epoch: int
    progress: str


@dataclass(frozen=True)
class Superseded:
    turn: Turn
    started: tuple[Reported, ...]


@dataclass(frozen=True)
class PlanStep:
    ordinal: int
    name: str
    operation: str
    state: str
    note: str | None = None


@dataclass(frozen=True)
class Plan:
    """How the undoing of a group stands: not_yet, none, pending, running, completed, partial, failed or manual."""

    state: str
    over: bool
    steps: tuple[PlanStep, ...]


@dataclass(frozen=True)
class Undo:
    """One inverse that is to be run."""

    name: str
    input: Any
    ordinal: int
    downstream_key: str


Inverses = Mapping[str, tuple[Effect, Callable[[Undo], None]]]
AsyncInverses = Mapping[str, tuple[Effect, Callable[[Undo], Awaitable[None]]]]


def undone_by(name: str, input: Any = None) -> dict[str, Any]:
    """What undoes an effect, with an input that is known now."""
    return {"name": name, "input": input}


def undone_from_outcome(name: str, pointer: str = "") -> dict[str, Any]:
    """What undoes an effect, with an input that its result holds: where this JSON pointer points, or all of it."""
    return {"name": name, "from_outcome": pointer}


class Group:
    """A lineage of calls. Each method has a twin for asyncio, `…_async`."""

    def __init__(self, client: Client, turn: Turn) -> None:
        self._client = client
        self.turn = turn

    @classmethod
    def made(cls, client: Client, told: Mapping[str, Any]) -> Group:
        return cls(client, Turn(told["group"], told["epoch"]))

    @classmethod
    def found(cls, client: Client, group: str) -> Group:
        return cls.made(client, client.call("GET", f"/v1/groups/{group}"))

    @property
    def id(self) -> str:
        return self.turn.group

    def supersede(self) -> Superseded:
        """A newer turn; says what may have started in the older ones. Whatever is not in the list was refused."""
        told = self._say("supersede", nonce=secrets.token_hex(16))
        self.turn = Turn(self.id, told["epoch"])
        return Superseded(self.turn, tuple(Reported(**one) for one in told["started"]))

    def fork(self, name: str) -> Group:
        """QUEUE: the message that comes next gets a group of its own."""
        return Group.made(self._client, self._say("fork", name=name))

    def force_complete(self, name: str) -> Group:
        """This turn is let finish, whatever comes; the later message gets a group of its own."""
        return Group.made(self._client, self._say("force_complete", name=name))

    def absorb(self) -> None:
        """One more message belongs to this turn."""
        self._say("absorb", epoch=self.turn.epoch)

    def commit(self) -> None:
        """A commit point: no supersede and no absorb from here on."""
        self._say("commit")

    def close(self) -> None:
        """Nothing starts in it any more, and what it kept is let go."""
        self._say("close")

    def show(self) -> dict[str, Any]:
        return self._client.call("GET", f"/v1/groups/{self.id}")

    def why_not_supersede(self) -> str | None:
        """Why it may not be superseded; `None` if it may."""
        may = self.show()["may_supersede"]
        return None if may["allowed"] else str(may["reason"])

    # Undoing.

    def unwind(self, inverses: Inverses, *, wait: float = 60.0, lease: float | None = None, tries: int = 5) -> Plan:
        """Undoes what the group has done, the last start first. It can be said again, by any process, until it is over.

        `inverses` names what this process knows how to do: `{"cancel": ("idempotent", cancel)}`. Raise `NoEffect`,
        `Retryable` or `Rejected` in one as in any block; any other exception is raised here, and means that nobody knows
        whether it happened. One that fails retryably is tried again, so often in one call."""
        plan = self._planned(wait)
        while plan is None:
            told = self._next(inverses, lease)
            if told["next"] == "later":
                time.sleep(_pause(told))
            elif told["next"] == "nothing":
                plan = _plan(told)
            else:
                try:
                    with Once(self._client, {}, given=told):
                        inverses[told["name"]][1](_undo(told))
                except Rejected:
                    pass
                except (NoEffect, Retryable):
                    tries -= 1
                    plan = self.plan() if tries <= 0 else None
                    time.sleep(_AGAIN)
        return plan

    async def unwind_async(
        self, inverses: AsyncInverses, *, wait: float = 60.0, lease: float | None = None, tries: int = 5
    ) -> Plan:
        plan: Plan | None = await _in_thread(self._client._begins, self._planned, wait)
        while plan is None:
            told = await _asked(self._client, lambda: self._next(inverses, lease))
            if told["next"] == "later":
                await asyncio.sleep(_pause(told))
            elif told["next"] == "nothing":
                plan = _plan(told)
            else:
                try:
                    async with Once(self._client, {}, given=told):
                        await inverses[told["name"]][1](_undo(told))
                except Rejected:
                    pass
                except (NoEffect, Retryable):
                    tries -= 1
                    plan = await asyncio.to_thread(self.plan) if tries <= 0 else None
                    await asyncio.sleep(_AGAIN)
        return plan

    def plan(self) -> Plan:
        return _plan(self._client.call("GET", f"/v1/compensations/{self.id}"))

    def seen_to(self, ordinal: int, note: str) -> Plan:
        """A person has undone this effect by other means. Needs the capability `resolve`."""
        return _plan(self._undo("seen_to", ordinal=ordinal, note=note))

    def retry_inverse(self, ordinal: int, note: str) -> Plan:
        """A person has found that this inverse may be tried again. Needs the capability `resolve`."""
        return _plan(self._undo("retry", ordinal=ordinal, note=note))

    def _planned(self, wait: float) -> Plan | None:
        plan = _plan(self._undo("unwind", wait_ms=min(60_000, max(0, round(wait * 1000)))))
        return plan if plan.state == "not_yet" else None

    def _next(self, inverses: Inverses | AsyncInverses, lease: float | None) -> dict[str, Any]:
        known = {name: effect for name, (effect, _) in inverses.items()}
        return self._undo("next", inverses=known, nonce=secrets.token_hex(16), **_times(lease, None))

    def _say(self, verb: str, **said: Any) -> dict[str, Any]:
        return self._client.call("POST", f"/v1/groups/{self.id}:{verb}", said)

    def _undo(self, verb: str, **said: Any) -> dict[str, Any]:
        return self._client.call("POST", f"/v1/compensations/{self.id}:{verb}", said)

    # For asyncio. The calls themselves wait in threads, so that the loop does not.

    async def supersede_async(self) -> Superseded:
        return await asyncio.to_thread(self.supersede)

    async def fork_async(self, name: str) -> Group:
        return await asyncio.to_thread(self.fork, name)

    async def force_complete_async(self, name: str) -> Group:
        return await asyncio.to_thread(self.force_complete, name)

    async def absorb_async(self) -> None:
        await asyncio.to_thread(self.absorb)

    async def commit_async(self) -> None:
        await asyncio.to_thread(self.commit)

    async def close_async(self) -> None:
        await asyncio.to_thread(self.close)

    async def why_not_supersede_async(self) -> str | None:
        return await asyncio.to_thread(self.why_not_supersede)


def _pause(told: Mapping[str, Any]) -> float:
    return min(5.0, max(0.01, float(told["retry_after_ms"]) / 1000))


def _undo(told: Mapping[str, Any]) -> Undo:
    return Undo(told["name"], told["input"], told["ordinal"], told["downstream_key"])


def _plan(told: Mapping[str, Any]) -> Plan:
    return Plan(told["state"], told["over"], tuple(PlanStep(**step) for step in told["steps"]))
