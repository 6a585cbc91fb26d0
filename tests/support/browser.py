"""A real browser, from the system's packages, driven without a window."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.prometheus_server import REQUIRED, require_binary
from tests.support.waiting import until

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Page:
    """An open page, and what it asked for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def run(self, script: str, *arguments: object) -> Any:
        """Return what JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        """Return the text of the first element that fits; empty if there is none."""
        return str(
            self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        )

    def count(self, selector: str) -> int:
        """Return how many elements fit."""
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def errors(self) -> list[str]:
        """Return what the console has complained of since this was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> set[str]:
        """Return the addresses that were asked for since this was last asked."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        return {
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        }

    def shows(self, what: str, script: str, *, within_s: float = 20.0) -> Any:
        """Wait for JavaScript to return something true, and return it."""
        return until(what, lambda: self.run(f"return {script}"), within_s=within_s)


@contextmanager
def browser(
    profile: Path,
    *,
    width: int = 1440,
    height: int = 1000,
    dark: bool = False,
    language: str = "en",
    flags: Sequence[str] = (),
) -> Iterator[Page]:
    """Yield a page of a new browser; skips where there is none, fails where one is required."""
    chromium, driver_path = require_binary("chromium"), require_binary("chromedriver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail("selenium is not installed")
        pytest.skip("selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, *flags, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.add_argument(f"--lang={language}")
    options.add_experimental_option("prefs", {"intl.accept_languages": language})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        yield Page(driver)
    finally:
        driver.quit()
