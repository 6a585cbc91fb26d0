# ruff: noqa: INP001  # a script that make runs
"""Look up what is installed in the database of known vulnerabilities, with pip-audit.

    python tools/audit.py ENVIRONMENT

Exits with 1 if something is vulnerable. Without a way to the database it says so and passes, as
nothing was looked up; where `AUDIT_REQUIRED` is set, as in CI, that fails, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def main(environment: str) -> int:
    """Print what is known; return the exit status."""
    packages = next(Path(environment).glob("lib/python*/site-packages"))
    found = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--path", str(packages), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        looked_up = json.loads(found.stdout)["dependencies"]
    except (ValueError, KeyError):
        problem = found.stderr.strip().rpartition("\n")[2]
        print(f"SKIPPED vulnerabilities: pip-audit could not look them up: {problem[:300]}")
        return int(bool(os.environ.get("AUDIT_REQUIRED")))
    vulnerable = [each for each in looked_up if each.get("vulns")]
    for each in vulnerable:
        ids = ", ".join(vulnerability["id"] for vulnerability in each["vulns"])
        print(f"{each['name']} {each['version']}: {ids}")
    print(f"{len(looked_up)} distributions looked up, {len(vulnerable)} vulnerable")
    return int(bool(vulnerable))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
