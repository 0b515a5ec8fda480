"""What was computed once and may be used again, or may not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ._client import Client


@dataclass(frozen=True)
class Input:
    """What a computation was made of."""

    agent: str
    session: str
    channel: str
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Dependencies:
    """The versions of what gives inputs their meaning."""

    scenario_set: str = ""
    rules: str = ""
    knowledge_base: str = ""
    agent_config: str = ""
    tool_registry: str = ""


@dataclass(frozen=True)
class Memo:
    """`reuse`, `revalidate` (look whether it still fits) or `recompute`, always with the reason."""

    answer: Literal["reuse", "revalidate", "recompute"]
    reason: str
    value: Any = None


class Memos:
    """Memos under one declaration. Each method has a twin for asyncio, `…_async`."""

    def __init__(self, client: Client, reuse_decl: Mapping[str, Mapping[str, Any]]) -> None:
        self._client = client
        self._declared = reuse_decl

    def look_up(self, phase: str, input: Input, dependencies: Dependencies) -> Memo:
        told = self._client.call("POST", "/v1/memos:look_up", self._wanted(phase, input, dependencies))
        return Memo(told["answer"], told["reason"], told.get("value"))

    def keep(
        self, phase: str, input: Input, dependencies: Dependencies, value: Any, producer: str | None = None
    ) -> bool:
        """Keeps a computation, unless its phase is never reused; `producer` is the operation that made it, if one did."""
        wanted = {**self._wanted(phase, input, dependencies), "value": value, "producer": producer}
        return bool(self._client.call("POST", "/v1/memos:keep", wanted)["kept"])

    async def look_up_async(self, phase: str, input: Input, dependencies: Dependencies) -> Memo:
        return await asyncio.to_thread(self.look_up, phase, input, dependencies)

    async def keep_async(
        self, phase: str, input: Input, dependencies: Dependencies, value: Any, producer: str | None = None
    ) -> bool:
        return await asyncio.to_thread(self.keep, phase, input, dependencies, value, producer)

    def _wanted(self, phase: str, input: Input, dependencies: Dependencies) -> dict[str, Any]:
        made_of = {**asdict(input), "messages": list(input.messages)}
        return {"reuse_decl": self._declared, "phase": phase, "input": made_of, "dependencies": asdict(dependencies)}
