"""The OpenAPI document against the daemon: no fault of the server's, and no answer that the document does not know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import BINARY, Daemon


def test_no_input_makes_it_fail_and_every_answer_is_in_the_document(tmp_path: Path) -> None:
    made = subprocess.run(
        [BINARY, "key", "new", "fuzzer", "--tenant", "acme", "--role", "admin"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    key = made.stderr.split("once: ")[1].split()[0]
    (tmp_path / "keys.toml").write_text(made.stdout)
    # Readers of events stay only for a moment and nobody waits, so that every endpoint answers at once.
    settings = '[server]\nkeys = "keys.toml"\nreader_seconds = 1\n[default]\non_in_flight = "reject"\n'
    (tmp_path / "hapax.toml").write_text(settings)
    daemon = Daemon(tmp_path, admin="127.0.0.1:0")
    try:
        assert daemon.admin_url is not None
        contract(daemon.url, key, tmp_path)
        # What is at the administrators' door alone; policies that anybody could have put in force come last.
        contract(daemon.admin_url, key, tmp_path, "--include-path", "/v1/audit", "--include-path", "/v1/policies")
    finally:
        daemon.kill()


def contract(url: str, key: str, directory: Path, *more: str) -> None:
    run = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{url}/openapi.json",
            "--header",
            f"Authorization: Bearer {key}",
            "--max-examples",
            os.environ.get("HAPAX_TEST_EXAMPLES", "25"),
            # What one field says about another is in words, not in the schema: such a request is rightly refused.
            "--exclude-checks",
            "positive_data_acceptance",
            # These two wait as long as they are asked to.
            "--exclude-path",
            "/v1/a2a/lease",
            "--exclude-path",
            "/v1/a2a/results",
            "--no-color",
            *more,
        ],
        capture_output=True,
        text=True,
        cwd=directory,
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
