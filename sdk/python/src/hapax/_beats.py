"""Messages that make one turn, in whatever order and however often they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._client import Client, Effect, _times
from ._groups import Turn

if TYPE_CHECKING:
    from ._once import Once


@dataclass(frozen=True)
class Beat:
    number: int
    sealed: bool
    size: int


@dataclass(frozen=True)
class Gathered:
    """`new`, `known` (delivered again) or `overlap`: some belong to beats, `unanswered` to none."""

    kind: str
    beats: tuple[Beat, ...]
    unanswered: tuple[str, ...] = ()
    found: tuple[tuple[str, int], ...] = ()

    @property
    def beat(self) -> Beat:
        return self.beats[0]


class Session:
    """The beats of one session. Each method has a twin for asyncio, `…_async`."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name

    def gather(self, messages: Iterable[str]) -> Gathered:
        """These messages arrived together, in any order."""
        told = self._say("gather", messages=list(messages))
        kind = str(told["gathered"])
        if kind != "overlap":
            return Gathered(kind, (_beat(told),))
        found = tuple((one["message"], one["beat"]) for one in told["found"])
        return Gathered(kind, tuple(map(_beat, told["beats"])), tuple(told["unanswered"]), found)

    def absorb(self, beat: Beat, messages: Iterable[str], turn: Turn | None = None) -> Beat:
        """More messages belong to an open beat. Past the commit point of its turn nothing is absorbed."""
        said: dict[str, Any] = {"beat": beat.number, "messages": list(messages)}
        if turn is not None:
            said["turn"] = turn.wire()
        return _beat(self._say("absorb", **said))

    def seal(self, beat: Beat) -> Beat:
        """The beat is complete: nothing is absorbed any more."""
        return _beat(self._say("seal", beat=beat.number))

    def answer(
        self, beat: Beat, *, effect: Effect = "unsafe", lease: float | None = None, wait: float | None = None
    ) -> Once:
        """The block that answers a sealed beat, once, whichever of its messages is delivered again."""
        from ._once import Once

        wanted = {"session": self._name, "beat": beat.number, "effect": effect, **_times(lease, wait)}
        return Once(self._client, wanted, "/v1/beats:begin")

    async def gather_async(self, messages: Iterable[str]) -> Gathered:
        return await asyncio.to_thread(self.gather, messages)

    async def absorb_async(self, beat: Beat, messages: Iterable[str], turn: Turn | None = None) -> Beat:
        return await asyncio.to_thread(self.absorb, beat, messages, turn)

    async def seal_async(self, beat: Beat) -> Beat:
        return await asyncio.to_thread(self.seal, beat)

    def _say(self, verb: str, **said: Any) -> dict[str, Any]:
        return self._client.call("POST", f"/v1/beats:{verb}", {"session": self._name, **said})


def _beat(told: Mapping[str, Any]) -> Beat:
    return Beat(told["beat"], told["sealed"], told["size"])
