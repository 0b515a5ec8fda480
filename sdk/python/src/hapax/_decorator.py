from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from ._client import Client, Effect
from ._errors import Misused
from ._json import fault

P = ParamSpec("P")
R = TypeVar("R")


def idempotent(
    surface: str,
    *,
    key: Callable[..., str],
    request: Callable[..., Any] | None = None,
    effect: Effect = "unsafe",
    scope: Mapping[str, str] | None = None,
    lease: float | None = None,
    wait: float | None = None,
    client: Client | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function run once per key. Its arguments guard the key; its result has to be JSON.

    Where arguments are not JSON, as the `self` of a method never is, `request` says what guards the key instead. Like `key` it
    gets all of them: `key=lambda self, order: f"{self.shop}-{order}", request=lambda self, order: [self.shop, order]`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = getattr(function, "__qualname__", repr(function))
        # An object may be called too, and what it is then stands in its class.
        called = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)
        if any(is_one(of) for is_one in (inspect.isgeneratorfunction, inspect.isasyncgenfunction) for of in (function, called)):
            raise Misused(f"`{name}` yields, and only a value that is returned can be kept: return it whole")
        signature = inspect.signature(function)

        def guard(args: Any, kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            if request is not None:
                return request(*args, **kwargs)
            bound.apply_defaults()
            unusable = fault(bound.arguments)
            if unusable is not None:
                raise Misused(
                    f"the argument `{unusable[0]}` of `{name}` is not JSON ({unusable[1]}), so it cannot guard the"
                    f" key; say what does with `request=lambda {', '.join(signature.parameters)}: …` [HX0073]"
                )
            return dict(bound.arguments)

        def block(args: Any, kwargs: Any) -> Any:
            guarded = guard(args, kwargs)
            return (client or _default()).once(
                surface,
                key(*args, **kwargs),
                request=guarded,
                effect=effect,
                scope=scope,
                lease=lease,
                wait=wait,
            )

        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):

            @functools.wraps(function)
            async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                async with block(args, kwargs) as op:
                    if op.first:
                        op.result = await cast("Any", function)(*args, **kwargs)
                return op.result

            return cast("Callable[P, R]", run_async)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with block(args, kwargs) as op:
                if op.first:
                    result = function(*args, **kwargs)
                    if inspect.iscoroutine(result):
                        # What ran before it was made, nobody knows.
                        result.close()
                        raise Misused(f"`{name}` returns a coroutine, which nobody awaits: make it an `async def`")
                    op.result = result
            return cast(R, op.result)

        return run

    return decorate


@functools.cache
def _default() -> Client:
    return Client()
