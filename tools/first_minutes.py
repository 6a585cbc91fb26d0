# ruff: noqa: INP001  # a script that people run by hand
"""Records the first minutes with the project, as the README leads through them, from a real run.

From a clone to the sentence that is in no document: the commands of the README's installation and
its LangChain example, in a new folder. What they print goes to docs/first-minutes.cast with its
times, in asciinema's format (https://docs.asciinema.org/manual/asciicast/v2/): play it with
`asciinema play docs/first-minutes.cast`. A test compares it with the README. The README's animated
picture is made of it: `termtosvg render docs/first-minutes.cast docs/pictures/first-minutes.svg
-M 3000 -D 8000` (PyPI: termtosvg).

Usage: python tools/first_minutes.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

ROOT: Final = Path(__file__).parents[1]
CAST: Final = ROOT / "docs" / "first-minutes.cast"
EXAMPLE: Final = re.compile(r"<!-- runs: langchain -->\n```python\n(.*?)```", re.DOTALL)
PROMPT: Final = "$ "
COMMANDS: Final = (
    "git clone --quiet ragmonitor.git",
    "cd ragmonitor",
    "python3 -m venv .venv && . .venv/bin/activate",
    "pip install -qq . ./integrations/langchain",
    "cat first.py   # the README's example, pasted",
    "python first.py",
)


def example() -> str:
    """Return the LangChain example of the README."""
    found = EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit("README.md has no block that is marked `runs: langchain`")
    return found[1]


def events(folder: Path) -> Iterator[tuple[float, str]]:
    """Run the commands in one shell, and yield what is on the screen, with the seconds so far."""
    variables = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG") or "PIP" in k}
    shell = subprocess.Popen(
        ["/bin/bash"],
        cwd=folder,
        env=variables | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    keys, screen = cast("IO[str]", shell.stdin), cast("IO[str]", shell.stdout)
    began_s = time.monotonic()
    for command in COMMANDS:
        yield time.monotonic() - began_s, f"{PROMPT}{command}\n"
        if command.startswith("cat "):
            (folder / "ragmonitor" / "first.py").write_text(example(), encoding="utf-8")
        keys.write(f"{command}\necho DONE:$?\n")
        keys.flush()
        for line in screen:
            if line.startswith("DONE:"):
                if line.strip() != "DONE:0":
                    raise SystemExit(f"{command} ended with {line.strip()}")
                break
            yield time.monotonic() - began_s, line
    keys.close()
    shell.wait()


def main() -> int:
    """Record, and write the file."""
    header: dict[str, Any] = {
        "version": 2,
        "width": 120,
        "height": 40,
        "title": "ragmonitor: from a clone to the sentence that is in no document",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            ["git", "clone", "--quiet", "--bare", str(ROOT), str(folder / "ragmonitor.git")],  # noqa: S607
            check=True,
        )
        lines = [
            header,
            *([round(s, 3), "o", text.replace("\n", "\r\n")] for s, text in events(folder)),
        ]
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    CAST.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
