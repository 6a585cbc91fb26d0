"""Running code in a process of its own, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(code: str, folder: Path, *, timeout_s: float = 90, **variables: str) -> str:
    """Run a script in `folder`; return its output.

    Raises:
        AssertionError: It failed; the message is what it printed on stderr.
    """
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=folder,
        env={**os.environ, **variables},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
