"""A client that crashes and comes back must never number two submissions alike: the second would be answered with the
first one's result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hapax
from hapax._keys import _written

CLIENT = "host1.dc1:12345"


def parts(key: str) -> tuple[str, int, str]:
    client, sequence, nonce = key.rsplit(":", 2)
    return client, int(sequence), nonce


def test_keys_count_up_and_a_restart_never_goes_back(tmp_path: Path) -> None:
    last, nonces = 0, set()
    for _ in range(3):
        with hapax.KeyGenerator(tmp_path / "keys", CLIENT) as keys:
            for _ in range(1_500):
                client, sequence, nonce = parts(keys.next())
                assert client == CLIENT and sequence > last and len(nonce) == 16
                last = sequence
                nonces.add(nonce)
    assert len(nonces) == 3


def test_the_file_is_the_one_that_rust_writes() -> None:
    said = "hapax-keys 1\nclient host1.dc1:12345\nreserved 3000\ncheck cc6ea564aa227bdc\n"
    assert _written(CLIENT, 3_000) == said


def test_a_killed_client_goes_on_above_all_that_it_gave_out(tmp_path: Path) -> None:
    path, seen = tmp_path / "keys", set()
    program = (
        "import sys, hapax\n"
        f"keys = hapax.KeyGenerator(sys.argv[1], {CLIENT!r})\n"
        "while True: print(keys.next(), flush=True)\n"
    )
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        given = [child.stdout.readline().strip() for _ in range(1_200)]
        child.send_signal(signal.SIGKILL)
        # What was on its way when it died was given out, too; a last line may be torn.
        given += [line for line in child.stdout.read().split("\n")[:-1] if line]
        child.wait()
        numbers = {parts(key)[1] for key in given}
        assert len(numbers) == len(given) and not numbers & seen
        seen |= numbers


def test_one_process_makes_keys_from_a_file_and_each_is_given_once(tmp_path: Path) -> None:
    keys = hapax.KeyGenerator(tmp_path / "keys", CLIENT)
    with pytest.raises(hapax.NoKey, match="another process"):
        hapax.KeyGenerator(tmp_path / "keys", CLIENT)
    given: list[str] = []
    threads = [threading.Thread(target=lambda: given.extend(keys.next() for _ in range(600))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(given)) == 2_400
    keys.close()
    with pytest.raises(hapax.NoKey, match="closed"):
        keys.next()
    with pytest.raises(hapax.NoKey, match="belongs to client"):
        hapax.KeyGenerator(tmp_path / "keys", "another")


def test_a_file_that_is_damaged_or_gone_is_no_new_beginning(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with hapax.KeyGenerator(path, CLIENT) as keys:
        keys.next()
    good = path.read_bytes()
    for at in range(len(good)):
        for damaged in (good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], good[:at]):
            path.write_bytes(damaged)
            with pytest.raises(hapax.NoKey):
                hapax.KeyGenerator(path, CLIENT)
    os.remove(path)
    with pytest.raises(hapax.NoKey, match="gone"):
        hapax.KeyGenerator(path, CLIENT)
    path.write_bytes(good)
    with hapax.KeyGenerator(path, CLIENT) as keys:
        assert parts(keys.next())[1] == 1_001


@pytest.mark.parametrize("client", ["", "with space", "é", "x" * 201])
def test_a_client_id_that_is_no_name_is_refused(tmp_path: Path, client: str) -> None:
    with pytest.raises(hapax.NoKey, match="client id"):
        hapax.KeyGenerator(tmp_path / "keys", client)
