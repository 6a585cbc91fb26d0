"""Who may see the page."""

from __future__ import annotations

from email.message import Message

import pytest
from pydantic import SecretStr

from ragmonitor.export.view import Access, is_loopback
from ragmonitor.export.view.access import ANOTHER_NAME, NO_TOKEN

TOKEN = "a token of enough length"


def headers(**given: str) -> Message:
    message = Message()
    for name, value in given.items():
        message[name] = value
    return message


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.3.2.1", "localhost", "LOCALHOST", "::1", "[::1]"]
)
def test_this_machine_is_loopback(host):
    """Every name that leads nowhere else."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.0.0.1.nip.io", ""],
)
def test_everything_else_is_not(host):
    """An address of all interfaces, and names that only begin like ours."""
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["evil.example:7247", "127.0.0.1.evil.example", "", "[::2]:80"])
def test_without_a_token_other_names_are_refused(host):
    """A website that points its name to 127.0.0.1 reads nothing."""
    assert Access().refusal(headers(Host=host)) is ANOTHER_NAME


def test_a_bearer_is_let_in_under_any_name():
    """A proxy may have a name of its own."""
    asked = headers(Host="monitor.example", Authorization=f"Bearer {TOKEN}")
    assert Access(SecretStr(TOKEN)).refusal(asked) is None


@pytest.mark.parametrize(
    "given", ["Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer ", f"Bearer {TOKEN}x", "Bearer ü"]
)
def test_another_authorization_is_not(given):
    """No prefix, no other scheme, nothing that is not ASCII."""
    assert Access(SecretStr(TOKEN)).refusal(headers(Authorization=given)) is NO_TOKEN


def test_the_cookie_lets_in_and_does_not_tell_the_token():
    """Only the server reads it, and only from its own pages."""
    access = Access(SecretStr(TOKEN))
    pair, *flags = access.cookie.split("; ")
    assert access.refusal(headers(Cookie=f"other=1; {pair}")) is None
    assert TOKEN not in access.cookie
    assert set(flags) == {"Path=/", "HttpOnly", "SameSite=Strict"}


def test_a_broken_cookie_is_refused():
    """And nothing is raised."""
    assert Access(SecretStr(TOKEN)).refusal(headers(Cookie='=;;\x00=a"')) is NO_TOKEN
