"""A trip of three bookings is undone; the worker that does it dies half-way. Needs a daemon: `cargo run --release -- serve`."""

import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import hapax

client = hapax.Client()


class Agency:
    """Cancels bookings, and knows keys: the same key is the same cancellation."""

    def __init__(self, book: Path) -> None:
        self.book = book

    def cancelled(self) -> list[str]:
        return [line.split()[1] for line in self.book.read_text().splitlines()]

    def cancel(self, undo: hapax.Undo) -> None:
        if undo.downstream_key not in self.book.read_text():
            with self.book.open("a") as book:
                book.write(f"{undo.downstream_key} {undo.input}\n")
            print(f"cancelled {undo.input}", flush=True)


def worker(group: str, agency: Agency) -> None:
    """The process that dies: after its second cancellation, before it can say so."""

    def cancel(undo: hapax.Undo) -> None:
        agency.cancel(undo)
        if len(agency.cancelled()) == 2:
            os._exit(9)

    client.group_by_id(group).unwind({"cancel": ("idempotent", cancel)}, lease=1.0)


def main(agency: Agency) -> None:
    trip = client.group(f"trip-{uuid.uuid4()}")
    for what in ("flight", "hotel", "car"):
        undo = hapax.undone_from_outcome("cancel", "/booking")
        with client.once("bookings", f"{trip.id}-{what}", turn=trip.turn, compensation=undo) as op:
            op.result = {"booking": f"{what}-1"}
            print(f"booked {op.result['booking']}", flush=True)
    died = subprocess.run([sys.executable, __file__, trip.id, str(agency.book)])
    assert died.returncode == 9
    print(f"the worker died; the plan is kept: {[step.state for step in trip.plan().steps]}", flush=True)
    plan = trip.unwind({"cancel": ("idempotent", agency.cancel)})
    assert plan.state == "completed", plan
    assert agency.cancelled() == ["car-1", "hotel-1", "flight-1"], agency.cancelled()
    print("undone: the last booking first, each once")


if len(sys.argv) == 3:
    worker(sys.argv[1], Agency(Path(sys.argv[2])))
else:
    with tempfile.TemporaryDirectory() as directory:
        main_book = Path(directory) / "book"
        main_book.touch()
        main(Agency(main_book))
