"""The OpenAPI document against the daemon: no fault of the server's, and no answer that the document does not know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from conftest import BINARY, Daemon

HOOKS = '''
import schemathesis


@schemathesis.hook
def map_body(context, body):
    """Whoever leases or asks for results waits as long as it wants to, and here nobody has the time.

    What is not to be accepted is left as it is: it is refused at once, and would be made right by this.
    """
    wait = body.get("wait_ms") if isinstance(body, dict) else None
    most = float("inf") if "/a2a/" in context.operation.path else 60_000
    if type(wait) is int and 0 <= wait <= most:
        body["wait_ms"] = 0
    return body
'''


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
        public, admin = paths(daemon.url), paths(daemon.admin_url)
        contract(daemon.url, key, tmp_path)
        # What only the administrators' door has. Policies and keys that anybody could have put in force come last.
        alone = [path for path, methods in admin.items() if methods != public.get(path)]
        assert "/v1/keys" in alone and "/v1/a2a/import" in alone and "/v1/policies" in alone, alone
        contract(daemon.admin_url, key, tmp_path, *(word for path in alone for word in ("--include-path", path)))
        assert set(public) <= set(admin), "one of the two runs covers every path"
    finally:
        daemon.kill()


def paths(url: str) -> dict[str, set[str]]:
    with urllib.request.urlopen(f"{url}/openapi.json") as answer:
        document = json.load(answer)
    return {path: set(item) for path, item in document["paths"].items()}


def contract(url: str, key: str, directory: Path, *more: str) -> None:
    (directory / "in_no_hurry.py").write_text(HOOKS)
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
            "--no-color",
            *more,
        ],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "in_no_hurry", "PYTHONPATH": str(directory)},
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2_000:]
