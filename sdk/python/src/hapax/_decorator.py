from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from ._client import Client, Effect

P = ParamSpec("P")
R = TypeVar("R")


def idempotent(
    surface: str,
    *,
    key: Callable[..., str],
    effect: Effect = "unsafe",
    scope: Mapping[str, str] | None = None,
    lease: float | None = None,
    wait: float | None = None,
    client: Client | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function run once per key. Its arguments guard the key; its result has to be JSON."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        def block(args: Any, kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return (client or _default()).once(
                surface,
                key(*args, **kwargs),
                request=dict(bound.arguments),
                effect=effect,
                scope=scope,
                lease=lease,
                wait=wait,
            )

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                async with block(args, kwargs) as op:
                    if op.first:
                        op.result = await function(*args, **kwargs)
                return op.result

            return cast("Callable[P, R]", run_async)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with block(args, kwargs) as op:
                if op.first:
                    op.result = function(*args, **kwargs)
            return cast(R, op.result)

        return run

    return decorate


@functools.cache
def _default() -> Client:
    return Client()
