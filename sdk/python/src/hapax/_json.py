"""What is sent has to be JSON; what is not is an error of ours, before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._errors import Misused


def encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as unusable:
        name, why = fault(body) or ("the body", str(unusable))
        raise Misused(
            f"`{name}` is not JSON ({why}); give it as text, numbers, lists and objects of these [HX0073]"
        ) from unusable


def fault(parts: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first part that is not JSON, by name, and why."""
    for name, part in parts.items():
        try:
            json.dumps(part, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as unusable:
            return name, str(unusable)
    return None
