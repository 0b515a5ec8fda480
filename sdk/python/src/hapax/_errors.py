"""What can go wrong, and what may be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class HapaxError(Exception):
    """Everything that this package raises."""


class Misused(HapaxError, TypeError, ValueError):
    """The program asks for something that cannot work; the message says what can. Nothing was sent, and nothing ran."""


class Unreachable(HapaxError):
    """The daemon gave no answer. What was sent may have arrived."""


class Refused(HapaxError):
    """The daemon said no; `code` never changes its meaning."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.status: int = int(problem.get("status", 0))
        self.code: str = str(problem.get("code", ""))
        self.detail: str = str(problem.get("detail", ""))
        self.next_action: str = str(problem.get("next_action", ""))
        self.operation: str | None = problem.get("operation")
        wait = problem.get("retry_after_ms")
        self.retry_after: float | None = None if wait is None else wait / 1000
        self._problem = dict(problem)
        # Some say their code themselves.
        said = f"[{self.code}]"
        super().__init__(self.detail if self.detail.endswith(said) else f"{self.detail} {said}")

    def __reduce__(self) -> tuple[type[Refused], tuple[dict[str, Any]]]:
        # Pools of processes hand exceptions on: as they are made, and not by the text that they show.
        return type(self), (self._problem,)


class InFlight(Refused):
    """Another caller is at it: try again with the same key."""


class Mismatch(Refused):
    """The key was used for another request."""


class InDoubt(Refused):
    """Nobody knows whether it happened. A new key is not safe."""


class NoRoom(Refused):
    """A quota or a limit is in the way: try again later with the same key."""


class Superseded(Refused):
    """A newer turn has overtaken this call: stop."""


class GroupRefused(Refused):
    """A group that is superseded, committed, being undone or closed says no; `detail` says which."""


class TooLate(Refused):
    """It was done long ago, and the retry came after its window."""


class Unauthorized(Refused):
    """No valid API key, or one that may not do this."""


class NotRecorded(HapaxError):
    """The effect ran, but its outcome was not taken. Do not run it again under a new key."""


class FailedBefore(HapaxError):
    """It failed for good before, and that answer stands; `answer` is what was recorded."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        super().__init__(f"it failed before and would again: {answer} [HX0003]")

    def __reduce__(self) -> tuple[type[FailedBefore], tuple[Any]]:
        return type(self), (self.answer,)


class JoinedFailure(HapaxError):
    """The attempt that was waited for failed: try again with the same key."""


class NotKept(HapaxError):
    """It was done, but its answer is not kept whole."""


class NoEffect(Exception):
    """Raise it in a block to say that nothing happened."""


class Retryable(Exception):
    """Raise it in a block to say that it failed, and may be tried again."""


class Rejected(Exception):
    """Raise it in a block to say that it failed for good; its arguments are recorded."""


def said_by(error: BaseException) -> str:
    """What it says, in characters that can be sent: the name of a file may hold bytes that are none."""
    return (str(error) or type(error).__name__).encode(errors="replace").decode()


_BY_CODE: dict[str, type[Refused]] = {
    "HX0004": InFlight,
    "HX0005": Mismatch,
    "HX0006": InDoubt,
    "HX0007": NoRoom,
    "HX0075": NoRoom,
    "HX0012": Superseded,
    "HX0090": GroupRefused,
    "HX0150": NoRoom,
    "HX0013": TooLate,
    "HX0070": Unauthorized,
    "HX0071": Unauthorized,
}


def refusal(problem: Mapping[str, Any]) -> Refused:
    return _BY_CODE.get(str(problem.get("code", "")), Refused)(problem)
