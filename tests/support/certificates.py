"""Certificates for tests of TLS on loopback."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: an authority, and a certificate of it for this machine, with its key."""

    authority: Path
    own: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make them anew, valid for two days."""
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for line in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=here -keyout own.key -out own.csr",
        "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -days 2 -extfile names -out own.pem",
    ):
        subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)
    return Certificates(folder / "ca.pem", folder / "own.pem", folder / "own.key")
