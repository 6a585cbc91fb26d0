# ruff: noqa: INP001  # a script that people run by hand
"""Draws the pictures of the page in docs/pictures, of a real run of the demo, with Chromium.

Usage: python -m tools.pictures

It needs chromium, chromedriver, selenium, a Chinese font, and the extra `demo`.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.support.browser import browser
from tests.support.prometheus_server import free_port
from tests.support.waiting import until

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
ANSWERS: Final = "document.querySelectorAll('.answer').length > 0"
INCIDENT: Final = "document.querySelectorAll('blockquote').length > 0"


def picture(
    url: str, name: str, *, height: int, section: str = "", until_there: str = ANSWERS, **look: Any
) -> None:
    """Write one picture: the page from its top, or from a section on."""
    with (
        tempfile.TemporaryDirectory() as profile,
        browser(Path(profile), height=height, **look) as page,
    ):
        page.driver.get(url)
        page.shows("it is drawn", until_there, within_s=60)
        if section:
            page.run("document.querySelector(arguments[0]).scrollIntoView()", section)
        drawn = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        (PICTURES / name).write_bytes(base64.b64decode(drawn["data"]))


def main() -> int:
    """Run the demo, wait for its alarm, and draw."""
    port = free_port()
    command = [sys.executable, "-m", "ragmonitor.cli.app", "demo"]
    options = ["--seconds", "200", "--rate", "5", "--port", str(port)]
    demo = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/ragmonitor/"

    def alarm() -> bool:
        with urllib.request.urlopen(f"{url}state.json", timeout=10) as reply:  # noqa: S310 - ours
            return any(each["active"] for each in json.load(reply)["alarms"])

    def is_named() -> bool:
        with urllib.request.urlopen(f"{url}incidents.json", timeout=10) as reply:  # noqa: S310
            incidents = json.load(reply)["incidents"]
        return any(each["cause"]["kind"] == "document" for each in incidents)

    try:
        until("an alarm is raised", alarm, within_s=230)
        until("its cause is named", is_named, within_s=60)
        of_incident: dict[str, Any] = {"height": 1700, "width": 1100, "until_there": INCIDENT}
        picture(f"{url}incidents/latest", "incident.png", **of_incident)
        picture(f"{url}incidents/latest?lang=zh", "incident-zh.png", **of_incident)
        picture(url, "view-light.png", height=1000)
        picture(url, "view-dark.png", height=1000, dark=True, section="#answers")
        picture(url, "view-narrow-zh.png", height=1500, width=390, language="zh")
    finally:
        demo.terminate()
        demo.wait(30)
    return 0


if __name__ == "__main__":
    sys.exit(main())
