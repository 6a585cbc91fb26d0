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

MARK = "[redacted:{kind}]"
"""Stands where something was taken out."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret stands in a text, and of what kind it is."""

    start: int
    end: int
    kind: str


RUN_LEAST = 20
"""Characters; every shape below has a run of `_KEY_CHARACTERS` at least as long."""
_KEY_CHARACTERS = string.ascii_letters + string.digits + "_-.~"
_RUNS = bytes(0x61 if chr(code) in _KEY_CHARACTERS else 0x20 for code in range(256))
_RUN = b"a" * RUN_LEAST
_BEFORE = 64
"""How far before its run a shape may begin."""

_SHAPES = {
    "aws_key": r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|ABSK[A-Za-z0-9+/=]{100,400}",
    "github_token": r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255}",
    "gitlab_token": r"gl(?:pat|dt|ft|soat|rt|ptt|cbt|agent|oas|imt)-[A-Za-z0-9_.-]{20,300}",
    "slack_token": r"xox[abeoprs]-[A-Za-z0-9-]{20,300}|xapp-[0-9]-[A-Za-z0-9-]{20,300}"
    r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,120}",
    "stripe_key": r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,100}",
    "google_key": r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{24,40}|ya29\.[A-Za-z0-9_-]{20,512}",
    "azure_key": r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
    "jwt": r"eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{8,8192}+(?:\.[A-Za-z0-9_-]{0,8192}+){1,3}",
    # The first is OpenAI's, Anthropic's, OpenRouter's, DeepSeek's, Qwen's, Moonshot's, Langfuse's.
    "api_key": (
        r"sk-(?=[A-Za-z0-9_-]{0,200}?[0-9])(?=[A-Za-z0-9_-]{0,200}?[A-Za-z0-9]{10})"
        r"[A-Za-z0-9_-]{20,255}"
        r"|gsk_[A-Za-z0-9]{20,100}"  # Groq
        r"|xai-[A-Za-z0-9]{20,100}"
        r"|hf_[A-Za-z0-9]{30,60}"
        r"|r8_[A-Za-z0-9]{30,60}"  # Replicate
        r"|pplx-[A-Za-z0-9]{30,80}"
        r"|nvapi-[A-Za-z0-9_-]{40,100}"
        r"|lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"  # LangSmith
        r"|pcsk_[A-Za-z0-9_]{30,100}"  # Pinecone
        r"|tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,60}"
        r"|dapi[0-9a-f]{32}(?:-[0-9])?"  # Databricks
        r"|LTAI[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"  # Alibaba Cloud
        r"|AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])"  # Tencent Cloud
        r"|SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}"  # SendGrid
        r"|SK[0-9a-f]{32}(?![A-Za-z0-9])"  # Twilio
        r"|key-[0-9a-f]{32}(?![A-Za-z0-9])"  # Mailgun
        r"|npm_[A-Za-z0-9]{36}"
        r"|pypi-[A-Za-z0-9_-]{50,255}"
        r"|shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"  # Shopify
        r"|do[opr]_v1_[0-9a-f]{64}"  # DigitalOcean
        r"|hv[sb]\.[A-Za-z0-9_-]{20,255}"  # Vault
        r"|gl(?:sa|c)_[A-Za-z0-9_=+/]{24,255}"  # Grafana
        r"|ATATT3[A-Za-z0-9_=-]{50,255}"  # Atlassian
        r"|AGE-SECRET-KEY-1[0-9A-Z]{58}"
        r"|(?<=[0-9]:)AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"  # Telegram
    ),
}
_SHAPED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    + "|".join(f"(?P<{kind}>{shape})" for kind, shape in _SHAPES.items())
    + ")"
)

_BEGINS = re.compile(
    r"A(?:[KSB]IA|CCA|3T|BSK|Iza|KID|TATT3|GE-S|A)|dapi|do[opr]_v1|eyJ|gh[pousr]_|github_pat_"
    r"|GOCSPX|gl[a-z]|gsk_|hf_|hooks|hv[sb]\.|key-|LTAI|lsv2_|npm_|nvapi-|pcsk_|pplx-|pypi-|Q~|r8_"
    r"|[rs]k_|shp|sk-|SG\.|SK|tvly-|whsec_|xai-|xapp-|xox|ya29"
)
"""What the shapes begin with, but for `Q~`: a search for it is cheap, one for a shape is not."""

_NAMES = ("key", "token", "secret", "pass", "pwd", "credential", "sig=")
_NAMES_ZH = ("密码", "密钥", "口令", "令牌")
_QUALIFIES_KEY = re.compile(
    r"(?:api|access|auth|secret|private|client|account|encryption|signing|master|shared"
    r"|subscription|hmac|deploy|license)[ _.-]?\Z"
)
_ASSIGNED = re.compile(
    r"(?P<name>key|token|secret(?:[_-]?(?:access)?[_-]?key)?|pass(?:word|wd|phrase|code)?|pwd"
    r"|credential|sig|密码|密钥|口令|令牌)"
    r"(?:[_-][a-z0-9_-]{0,16}+)?[0-9]{0,2}"
    r"['\"`\]]{0,2}"
    r"(?:(?P<assigned>\s{0,4}(?:=>|:?=)\s{0,4}|[:：]\s{0,4})|\s{1,3}is:?\s{1,3}|\s?[是为]\s?)"
    r"(?P<quote>['\"`]?)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[^'\"`\r\n]{6,512}+(?=['\"`])")
_BARE = re.compile(r"[^\s'\"`,;<>()\[\]{}|&，。；、！？（）【】「」《》“”‘’]{6,512}+")
_PASSWORDS = ("pass", "pwd", "密码", "口令")
_PLACEHOLDER = re.compile(
    r"[$%<{\[*(]|your|my[_-]|example|placeholder|none\Z|null\Z|undefined\Z|(?:x{3}|\.{3}|-{3})"
    r"|(?:api[_-]?key|password|passwd|secret|token)\Z",
    re.IGNORECASE,
)
_BEARER = re.compile(r"bearer\s{1,4}['\"]?(?P<value>[A-Za-z0-9._~+/=-]{16,4096}+)", re.IGNORECASE)
_BASIC = re.compile(r"basic\s{1,4}(?P<value>[A-Za-z0-9+/=]{8,1024}+)", re.IGNORECASE)
_AUTHORIZES = re.compile(r"authorization['\"]?\s{0,2}[:=]\s{0,2}['\"]?\Z")
_IN_ADDRESS = re.compile(r"://[^\s:@/'\"<>]{0,128}+:(?P<value>[^\s@/'\"<>]{1,256}+)@")
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
        for begin in _BEGINS.finditer(text, max(done, start - _BEFORE), end):
            place = begin.start() - (4 if begin[0] == "Q~" else 0)
            match = _SHAPED.match(text, place) if place >= done else None
            if match is not None:
                done = match.end()
                if text[done - 1 : done + 1].isalnum() and done < end:
                    done = end  # longer than any that is known: none of it may stay
                yield Secret(place, done, match.lastgroup or "api_key")
        start = runs.find(_RUN, end)


def _named(text: str) -> Iterator[Secret]:
    lower = _lower(text)
    for name in _NAMES if text.isascii() else _NAMES + _NAMES_ZH:
        for place in _places(lower, name):
            yield from _assigned(text, lower, place)
    for place in _places(lower, "bearer"):
        match = _BEARER.match(text, place)
        if match and _has_digit(match["value"]):
            yield Secret(*match.span("value"), "bearer_token")
    for place in _places(lower, "basic "):
        match = _BASIC.match(text, place)
        if match and _AUTHORIZES.search(lower, max(0, place - 24), place):
            yield Secret(*match.span("value"), "basic_auth")
    for place in _places(text, "://"):
        match = _IN_ADDRESS.match(text, place)
        if match and not _PLACEHOLDER.match(match["value"]):
            yield Secret(*match.span("value"), "password")
    yield from _private_keys(text, lower)


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
    quoted = bool(match["quote"])
    value = (_QUOTED if quoted else _BARE).match(text, match.end())
    if value is None:
        return
    words = value[0] if quoted else value[0].rstrip(".:!?")
    kind = _kind(match["name"])
    # In prose a name is followed by all sorts of things: what stands there must look the part.
    assigned = match["assigned"]
    least = 6 if kind == "password" else 8 if quoted or "=" in (assigned or "") else 12
    if _is_secret(words, kind, quoted=quoted and assigned is not None, least=least):
        yield Secret(value.start(), value.start() + len(words), kind)


def _is_name(match: re.Match[str], lower: str, place: int) -> bool:
    if match["name"].lower() != "key":
        return True
    return _QUALIFIES_KEY.search(lower, max(0, place - 14), place) is not None


def _kind(name: str) -> str:
    name = name.lower()
    if name.startswith(_PASSWORDS):
        return "password"
    if "key" in name or name == "密钥":
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


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _private_keys(text: str, lower: str) -> Iterator[Secret]:
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
