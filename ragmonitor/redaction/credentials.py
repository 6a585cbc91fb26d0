"""Keys, tokens and passwords in a text: found by their shape, or by the name they are given.

Why not a library: detect-secrets scans files line by line and reports lines, and its patterns of
providers are older than their keys; gitleaks' rules are made for source code, in another language.
The shapes of providers' keys below follow what their documentation says of the prefix.

Cost: everything that a provider gives out has a long run of key characters, and a name that gives
a value away is followed by one; so a clean text is passed over by substring searches alone. Every
pattern is matched at a place that such a search found, and every repetition in it is bounded or
possessive, so that the time is linear in the text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

from ragmonitor.redaction.shapes import BEGINS, PLACES, RUN_LEAST, SHAPED, kind_of

MARK = "[redacted:{kind}]"
"""Stands where something was taken out."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret stands in a text, and of what kind it is."""

    start: int
    end: int
    kind: str


_KEY_CHARACTERS = string.ascii_letters + string.digits + "_-.~"
_RUNS = bytes(0x61 if chr(code) in _KEY_CHARACTERS else 0x20 for code in range(256))
_RUN = b"a" * RUN_LEAST
_BEFORE = 64
"""How far before its run a shape may begin; no shape has a space."""

_NAMES = ("key", "token", "secret", "pass", "pwd", "credential", "sig=")
_NAMES_ZH = ("密码", "密钥", "密匙", "秘钥", "私钥", "口令", "令牌", "授权码")
_QUALIFIES_KEY = re.compile(
    r"(?:api|access|auth|secret|private|client|account|encryption|signing|master|shared"
    r"|subscription|hmac|deploy|license)[ _.-]?\Z"
)
_ASSIGNED = re.compile(
    r"(?P<name>key|token|secret(?:[_-]?(?:access)?[_-]?key)?|pass(?:word|wd|phrase|code)?|pwd"
    r"|credential|sig|密码|密钥|密匙|秘钥|私钥|口令|令牌|授权码)"
    r"(?:[_-][a-z0-9_-]{0,16}+)?[0-9]{0,2}"
    r"['\"`\]]{0,2}"
    r"(?:(?P<assigned>\s{0,4}(?:=>|:?[=＝])\s{0,4}|[:：]\s{0,4}"
    # `"name": "DB_PASSWORD", "value": "..."`, as deployments and XML have it.
    r"|[\s,]{1,12}['\"]?value['\"]?\s{0,2}[:=]\s{0,2})"
    r"|\s{1,3}is:?\s{1,3}|\s?[是为]\s?|(?P<element>>\s{0,4})|(?P<option>\s{1,2}))"
    r"(?P<quote>['\"`]?)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[^'\"`\r\n]{6,512}+(?=['\"`])")
_BARE = re.compile(r"[^\s'\"`,;<>()\[\]{}|&，。；、！？（）【】「」《》“”‘’]{6,512}+")
_PASSWORDS = ("pass", "pwd", "密码", "口令", "授权码")
_OPTION = re.compile(r"--[a-z0-9-]{0,24}\Z|\blogin\s{1,3}\S{1,64}\s{1,3}\Z")
"""Before a name that has its value behind a space: an option of a command, a line of `.netrc`."""
_OF_A_VARIABLE = re.compile(r"[A-Z0-9]_[A-Z0-9_]{0,40}\Z")
_PLACEHOLDER = re.compile(
    r"[$%<{\[*(]|your|my[_-]|example|placeholder|none\Z|null\Z|undefined\Z|(?:x{3}|\.{3}|-{3})"
    r"|(?:api[_-]?key|password|passwd|secret|token|string|text|value|required|optional|default"
    r"|hidden|changed|unchanged|expired|incorrect|invalid|protected)\Z",
    re.IGNORECASE,
)
_BEARER = re.compile(r"bearer\s{1,4}['\"]?(?P<value>[A-Za-z0-9._~+/=-]{16,4096}+)", re.IGNORECASE)
_BASIC = re.compile(r"basic\s{1,4}(?P<value>[A-Za-z0-9+/=]{8,1024}+)", re.IGNORECASE)
_AUTHORIZES = re.compile(r"authorization['\"]?\s{0,2}[:=]\s{0,2}['\"]?\Z")
_IN_ADDRESS = re.compile(r"://[^\s:@/'\"<>\[]{0,128}+:(?P<value>[^\s@/'\"<>]{1,256}+)@")
_TOKEN_IN_ADDRESS = re.compile(r"://(?P<value>[A-Za-z0-9_~+=%-]{16,256}+)@")
_IN_QUERY = re.compile(
    r"(?:key|code|auth|signature|ticket)=(?P<value>[A-Za-z0-9%._~+/=-]{16,2048}+)", re.IGNORECASE
)
_BEFORE_QUERY = re.compile(r"[?&][a-z0-9_-]{0,24}\Z")
_AUTHORIZATION = re.compile(
    r"authorization['\"]?\s{0,2}[:=]\s{0,2}['\"]?(?:[A-Za-z][\w-]{1,20}\s{1,4})?"
    r"(?P<value>[A-Za-z0-9._~+/=:-]{16,4096}+)",
    re.IGNORECASE,
)
_COOKIES = re.compile(r"cookie['\"]?\s{0,2}[:=]\s{0,2}(?P<pairs>[^\r\n]{8,8192}+)", re.IGNORECASE)
_COOKIE = re.compile(r"=(?P<value>[A-Za-z0-9%._~+/|:-]{16,4096}+)")
_SESSION = re.compile(
    r"(?:sess(?:ion)?(?:[_.-]?id)?|sid)=['\"]?(?P<value>[A-Za-z0-9%._~+/=-]{16,2048}+)",
    re.IGNORECASE,
)
_IDENTIFIED = re.compile(
    r"identified\s{1,3}by\s{1,3}(?:password\s{1,3})?['\"](?P<value>[^'\"\r\n]{4,256}+)['\"]",
    re.IGNORECASE,
)
_OF_USER = re.compile(
    r"-(?:u|-user)[ =]['\"]?(?P<user>[^\s:'\"]{1,64}+):(?P<value>[^\s'\"]{4,128}+)"
)
_PUTTY = re.compile(r"private-lines:[ ]?[0-9]{1,3}", re.IGNORECASE)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_LINES = re.compile(r"(?:(?:\\[nr]|\s)*+[A-Za-z0-9+/=]{16,}+)*+")
_KEY_MOST = 20_000


def secrets_in(text: str) -> list[Secret]:
    """Return what must not leave, in order, none overlapping another."""
    found = sorted((*_shaped(text), *_named(text)), key=lambda secret: (secret.start, -secret.end))
    apart: list[Secret] = []
    for secret in found:
        if apart and secret.start < apart[-1].end:
            if secret.end > apart[-1].end:
                apart[-1] = Secret(apart[-1].start, secret.end, apart[-1].kind)
        else:
            apart.append(secret)
    return apart


def without(text: str, secrets: list[Secret]) -> str:
    """Return the text with a mark where each secret stood."""
    if not secrets:
        return text
    pieces, done = [], 0
    for secret in secrets:
        pieces += [text[done : secret.start], MARK.format(kind=secret.kind)]
        done = secret.end
    return "".join([*pieces, text[done:]])


def without_secrets(text: str) -> str:
    """Return the text with a mark where each secret stood that is found in it."""
    return without(text, secrets_in(text))


def is_secret_under(name: str, value: str) -> bool:
    """Return whether a value is a secret by the name it has: `{"password": "..."}`."""
    assigned = _ASSIGNED.search(f"{_words(name)}=")
    if assigned is None or assigned.end() != len(name) + 1:
        return False
    return _is_name(assigned, f"{_words(name)}=", assigned.start()) and _is_secret(
        value, _kind(assigned["name"]), quoted=True, least=6
    )


def _words(name: str) -> str:
    return name.lower().replace(" ", "_")


def _shaped(text: str) -> Iterator[Secret]:
    # One byte a character, so that places in the one are places in the other.
    runs = text.encode("ascii", "replace").translate(_RUNS)
    start, done = runs.find(_RUN), 0
    while start >= 0:
        end = runs.find(b" ", start)
        end = len(text) if end < 0 else end
        before = max(done, start - _BEFORE)
        before = max(before, *(text.rfind(space, before, start) + 1 for space in " \n"))
        for word in PLACES.finditer(text, before, end):
            place = word.start()
            if place < done or BEGINS.match(text, place) is None:
                continue
            match = SHAPED.match(text, place)
            if match is not None:
                done = match.end()
                if text[done - 1 : done + 1].isalnum() and done < end:
                    done = end  # longer than any that is known: none of it may stay
                yield Secret(place, done, kind_of(match))
        start = runs.find(_RUN, end)


def _named(text: str) -> Iterator[Secret]:
    lower = _lower(text)
    for name in _NAMES if text.isascii() else _NAMES + _NAMES_ZH:
        for place in _places(lower, name):
            yield from _assigned(text, lower, place)
    for name, pattern, kind in _SAID_IN_PLACES:
        for place in _places(lower, name):
            match = pattern.match(text, place)
            if match and _has_digit(match["value"]):
                yield Secret(*match.span("value"), kind)
    for place in _places(lower, "-u"):
        match = _OF_USER.match(text, place)
        if match and _has_digit(match["value"]) and not match["user"].isdigit():
            yield Secret(*match.span("value"), "password")
    for place in _places(lower, "basic "):
        match = _BASIC.match(text, place)
        if match and _AUTHORIZES.search(lower, max(0, place - 24), place):
            yield Secret(*match.span("value"), "basic_auth")
    for place in _places(lower, "authorization"):  # by any other scheme
        match = _AUTHORIZATION.match(text, place)
        if match and _has_digit(match["value"]):
            yield Secret(*match.span("value"), "token")
    for place in _places(text, "://"):
        match = _IN_ADDRESS.match(text, place)
        if match and not _PLACEHOLDER.match(match["value"]):
            yield Secret(*match.span("value"), "password")
        match = _TOKEN_IN_ADDRESS.match(text, place)
        if match and _is_mixed(match["value"]):
            yield Secret(*match.span("value"), "token")
    for place in _places(lower, "="):
        yield from _of_query(text, lower, place)
    done = 0
    for place in _places(lower, "cookie"):
        header = _COOKIES.match(text, place) if place >= done else None
        if header is not None:
            done = header.end()
            for match in _COOKIE.finditer(text, *header.span("pairs")):
                if _has_digit(match["value"]):
                    yield Secret(*match.span("value"), "cookie")
    yield from _private_keys(text, lower)


def _of_query(text: str, lower: str, place: int) -> Iterator[Secret]:
    for name in _IN_QUERIES:
        if lower.endswith(name, 0, place):
            begin = place - len(name)
            match = _IN_QUERY.match(text, begin)
            is_query = _BEFORE_QUERY.search(lower, max(0, begin - 26), begin)
            if match and is_query and _is_mixed(match["value"]):
                yield Secret(*match.span("value"), "token")
            return


_IN_QUERIES = ("key", "code", "auth", "signature", "ticket")
_SAID_IN_PLACES = (
    ("bearer", _BEARER, "bearer_token"),
    ("sess", _SESSION, "cookie"),
    ("sid=", _SESSION, "cookie"),
    ("identified", _IDENTIFIED, "password"),
)
"""What gives a value away, what the two look like, and what it then is."""


def _lower(text: str) -> str:
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return text.translate(_ASCII_LOWER)  # a letter that is two in lower case would move all places


_ASCII_LOWER = {ord(upper): upper.lower() for upper in string.ascii_uppercase}


def _places(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + len(part))


def _assigned(text: str, lower: str, place: int) -> Iterator[Secret]:
    match = _ASSIGNED.match(text, place)
    if match is None or not _is_name(match, lower, place):
        return
    if lower.endswith("[redacted:", 0, place):  # a mark of ours
        return
    if match["option"] and not _OPTION.search(lower, max(0, place - 90), place):
        return
    quoted = bool(match["quote"])
    value = (_QUOTED if quoted else _BARE).match(text, match.end())
    if value is None or (match["element"] and not text.startswith("</", value.end())):
        return
    words = value[0] if quoted else value[0].rstrip(".:!?")
    kind = _kind(match["name"])
    # In prose a name is followed by all sorts of things: what stands there must look the part.
    assigned = match["assigned"] or match["element"] or ""
    least = 6 if kind == "password" else 8 if quoted or "=" in assigned else 12
    plain = words.isalpha() and _is_set(text, place, match, assigned)
    if _is_secret(words, kind, quoted=(quoted and bool(assigned)) or plain, least=least):
        yield Secret(value.start(), value.start() + len(words), kind)


def _is_set(text: str, place: int, match: re.Match[str], assigned: str) -> bool:
    """Return whether a name is given a value, and not said something of: letters alone do then."""
    if match["element"] or match["name"] in _NAMES_ZH or assigned in ("=", "＝", ":="):
        return True
    return _OF_A_VARIABLE.search(text, max(0, place - 42), place) is not None


def _is_name(match: re.Match[str], lower: str, place: int) -> bool:
    if match["name"].lower() != "key":
        return True
    return _QUALIFIES_KEY.search(lower, max(0, place - 14), place) is not None


def _kind(name: str) -> str:
    name = name.lower()
    if name.startswith(_PASSWORDS):
        return "password"
    if "key" in name or name in ("密钥", "密匙", "秘钥", "私钥"):
        return "api_key"
    return "token" if name in ("token", "令牌") else "secret"


def _is_secret(value: str, kind: str, *, quoted: bool, least: int) -> bool:
    if len(value) < least or not value.isascii() or "://" in value or _PLACEHOLDER.match(value):
        return False
    digit, letter = _has_digit(value), any(map(str.isalpha, value))
    if kind == "password":
        if " " in value:
            return digit
        return digit or quoted or not set(value).isdisjoint("!@#$%^&*+~")
    if " " in value:
        return False
    return letter and (digit or (len(value) >= 24 and value != value.lower() != value.upper()))


def _is_mixed(text: str) -> bool:
    return _has_digit(text) and any(map(str.isalpha, text))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _private_keys(text: str, lower: str) -> Iterator[Secret]:
    for place in _places(lower, "private-lines:"):
        begin = _PUTTY.match(text, place)
        end = begin and _KEY_LINES.match(text, begin.end())
        if begin is not None and end is not None and end.end() > begin.end():
            yield Secret(begin.end(), end.end(), "private_key")
    done = 0
    for place in _places(lower, "-----begin"):
        begin = _KEY_BEGINS.match(text, place) if place >= done else None
        if begin is None:
            continue
        ends = lower.find("-----end", begin.end(), begin.end() + _KEY_MOST)
        end = _KEY_ENDS.match(text, ends) if ends >= 0 else None
        if end is None:  # a chunk that ends in the middle of a key
            end = _KEY_LINES.match(text, begin.end())
        done = end.end() if end is not None else begin.end()
        yield Secret(place, done, "private_key")
