"""The page in a real browser: Debian's Chromium, spoken to by WebDriver."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hapax
from conftest import BINARY, Daemon

DRIVER = shutil.which("chromedriver")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1150",
]

# How the driver says that the page has moved on between finding an element and using it. The last is what it says where that happens
# while it asks the browser itself.
GONE = ["stale element", "no such element", "does not belong to the document"]


class Browser:
    def __init__(self, profile: Path, javascript: bool) -> None:
        assert DRIVER is not None
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout is not None
        port = None
        while port is None:
            line = self.driver.stdout.readline()
            assert line, "chromedriver ended"
            port = re.search(r"started successfully on port (\d+)", line)
        self.port = int(port[1])
        options: dict[str, Any] = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        if not javascript:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = self.call("POST", "/session", {"capabilities": wanted})["sessionId"]
        # Whether scripts run is asked of the browser, not of the wish.
        self.go("data:text/html,<title>off</title><script>document.title = 'on'</script>")
        assert self.at("GET", "/title") == ("on" if javascript else "off")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=None if body is None else json.dumps(body))
        answer = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise AssertionError(f"{path}: {answer['message']}")
        return answer

    def at(self, method: str, path: str, body: Any = None) -> Any:
        return self.call(method, f"/session/{self.session}{path}", body)

    def go(self, url: str) -> None:
        self.at("POST", "/url", {"url": url})

    def find(self, css: str) -> str:
        return str(next(iter(self.at("POST", "/element", {"using": "css selector", "value": css}).values())))

    def on(self, css: str, method: str, what: str, body: Any = None) -> Any:
        """A live page may replace an element between finding and using it: then it is found again."""
        for left in reversed(range(20)):
            try:
                return self.at(method, f"/element/{self.find(css)}/{what}", body)
            except AssertionError as error:
                if left == 0 or not any(gone in str(error) for gone in GONE):
                    raise
            time.sleep(0.1)

    def text(self, css: str) -> str:
        return str(self.on(css, "GET", "text"))

    def click(self, css: str) -> None:
        self.on(css, "POST", "click", {})

    def write(self, css: str, text: str) -> None:
        self.on(css, "POST", "value", {"text": text})

    def wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < until, self.at("GET", "/source")
            time.sleep(0.1)

    def close(self) -> None:
        try:
            self.at("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


@pytest.fixture(params=[True, False], ids=["with JavaScript", "without"])
def browser(request: Any, tmp_path: Path) -> Iterator[Browser]:
    if DRIVER is None:
        pytest.fail("chromedriver is not installed: apt-get install chromium-driver")
    opened = Browser(tmp_path / "profile", request.param)
    opened.javascript = request.param  # type: ignore[attr-defined]
    yield opened
    opened.close()


def test_an_operator_finds_what_is_stuck_and_decides_it(daemon: Daemon, browser: Browser) -> None:
    client = hapax.Client(daemon.url)
    with client.once("payments", "order-1", effect="irreversible") as op:
        op.result = 1
    with client.once("payments", "order-1", effect="irreversible") as op:
        assert op.replayed
    browser.go(daemon.url)
    assert "Nothing: the end of everything is known." in browser.text("main")
    with pytest.raises(RuntimeError):
        with client.once("refunds", "r-1", effect="irreversible"):
            raise RuntimeError
    if browser.javascript:  # type: ignore[attr-defined]
        browser.wait(lambda: "Nobody knows whether these happened" in browser.text("main"))
        assert "on" in browser.at("GET", f"/element/{browser.find('#pulse')}/attribute/class")
    else:
        browser.go(daemon.url)
        assert "Nobody knows whether these happened" in browser.text("main")
    if "HAPAX_TEST_SCREENSHOT" in os.environ and browser.javascript:  # type: ignore[attr-defined]
        picture = base64.b64decode(browser.at("GET", "/screenshot"))
        Path(os.environ["HAPAX_TEST_SCREENSHOT"]).write_bytes(picture)
    browser.click("a.id")
    browser.wait(lambda: "Do not send it under a new key" in browser.text("main"))
    browser.click("input[value=committed]")
    browser.write("input[name=answer]", '"found at the bank"')
    reason = "the bank has it <img src=x onerror=\"document.title='taken over'\">"
    browser.write("input[name=reason]", reason)
    browser.click(".decide button")
    browser.wait(lambda: browser.text("h1 .state") == "committed")
    # What people wrote stands there as they wrote it, and is no markup.
    assert reason in browser.text("main")
    assert browser.at("POST", "/elements", {"using": "css selector", "value": "main img"}) == []
    assert browser.at("GET", "/title") == "One operation"
    with client.once("refunds", "r-1", effect="irreversible") as op:
        assert op.result == "found at the bank"
    log = browser.at("POST", "/se/log", {"type": "browser"})
    bad = [line["message"] for line in log if line["level"] == "SEVERE" and "favicon" not in line["message"]]
    assert bad == []


def test_the_name_of_a_key_is_no_markup(tmp_path: Path, browser: Browser) -> None:
    name = "<img src=x onerror=alert(1)>"
    made = subprocess.run(
        [BINARY, "key", "new", name, "--tenant", "acme", "--role", "operator"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    key = made.stderr.split("once: ")[1].split()[0]
    (tmp_path / "keys.toml").write_text(made.stdout)
    (tmp_path / "hapax.toml").write_text('[server]\nkeys = "keys.toml"\n')
    daemon = Daemon(tmp_path)
    try:
        client = hapax.Client(daemon.url, api_key=key)
        with pytest.raises(RuntimeError):
            with client.once("payments", "k", effect="irreversible") as op:
                raise RuntimeError
        told = client.explain(op.operation)
        said = {"version": told["version"], "resolution": "rejected", "reason": "no"}
        client.call("POST", f"/v1/operations/{op.operation}:resolve", said)
        browser.go(f"http://any:{key}@127.0.0.1:{daemon.port}/page/operation?id={op.operation}")
        browser.wait(lambda: browser.text("h1 .state") == "rejected")
        assert f"(acme/{name})" in browser.text("main")
        assert browser.at("POST", "/elements", {"using": "css selector", "value": "main img"}) == []
    finally:
        daemon.kill()


def test_a_form_from_elsewhere_decides_nothing(daemon: Daemon) -> None:
    client = hapax.Client(daemon.url)
    with pytest.raises(RuntimeError):
        with client.once("payments", "k", effect="irreversible") as op:
            raise RuntimeError
    told = client.explain(op.operation)
    form = f"id={op.operation}&version={told['version']}&resolution=open&reason=x"

    def post(more: str, headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", int(daemon.port))
        kind = {"content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/page/resolve", body=form + more, headers={**kind, **headers})
        return connection.getresponse().status

    connection = http.client.HTTPConnection("127.0.0.1", int(daemon.port))
    connection.request("GET", f"/page/operation?id={op.operation}")
    page = connection.getresponse()
    assert "default-src 'none'" in str(page.headers["content-security-policy"])
    token = re.search(r'name="csrf" value="([0-9a-f]+)"', page.read().decode())
    assert token
    assert post("", {}) == 403
    assert post("&csrf=" + "0" * 64, {}) == 403
    assert post(f"&csrf={token[1]}", {"sec-fetch-site": "cross-site"}) == 403
    assert client.explain(op.operation)["state"] == "in_doubt"
    assert post(f"&csrf={token[1]}", {"sec-fetch-site": "same-origin"}) == 303
    assert client.explain(op.operation)["state"] == "open"
