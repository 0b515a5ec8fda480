"""Jobs that a client numbers and submits until it hears."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._client import Client
from ._errors import HapaxError, NotRecorded
from ._once import Once


@dataclass(frozen=True)
class JobView:
    """A job as it stands. Its answer is for whoever submits it again under its key."""

    operation: str
    state: str
    attempt: int
    begun_at: int
    ends_in: float | None
    """Seconds until the lease or the retention ends."""


class Job(Once):
    """The block around accepting a job. `hapax.Rejected` says that it is refused for good; that is given again, too."""

    def _say(self, verb: str, **said: Any) -> None:
        if verb not in ("complete", "reject"):
            return super()._say(verb, **said)
        ended = "committed" if verb == "complete" else "rejected"
        said = {"token": self._told["token"], "ended": ended, **said}
        try:
            self._client.call("POST", f"/v1/jobs/{self.operation}:report", said)
        except HapaxError as error:
            raise NotRecorded(f"the effect ran, but its outcome was not recorded: {error}") from error


def job_by_id(client: Client, operation: str) -> JobView:
    told = client.call("GET", f"/v1/jobs/{operation}")
    left = told.get("ends_in_ms")
    ends_in = None if left is None else left / 1000
    return JobView(told["operation"], told["state"], told["attempt"], told["begun_at"], ends_in)
