"""Finds keys, tokens and passwords in a text: by their format or by the name beside them.

Why not a library: detect-secrets scans files line by line and reports lines, and its patterns of
providers are older than their keys; gitleaks' rules are made for source code, in another language.

Cost: every key that a provider gives out has a long run of key characters, and every other secret
stands beside a sign (`password`, `://`), so a clean text is passed over by substring searches
alone. Every pattern is matched at a place that such a search found, and every repetition in it is
bounded or possessive, so that the time is linear in the text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ragmonitor.redaction.detections import Detection, apart, redacted
from ragmonitor.redaction.key_formats import BEGINS, FORMATS, FORMATTED, MIN_RUN, PLACES
from ragmonitor.runtime.patterns import lazy_pattern

_KEY_CHARACTERS = string.ascii_letters + string.digits + "_-.~+/=$,%"
_RUNS = bytes(0x61 if chr(code) in _KEY_CHARACTERS else 0x20 for code in range(256))
_RUN = b"a" * MIN_RUN
_BEFORE = 64
"""A key may begin so far before its run; no key has a space."""
_ASCII_LOWER = {ord(upper): upper.lower() for upper in string.ascii_uppercase}


def suspicions(text: str) -> Suspicions:
    """Return what may be in a text, or in any part of it: that is cheap, and mostly nothing.

    It is whether a run of key characters is as long as a key's, and the signs that the text has.
    """
    return _RUN in _runs(text), _signs_in(text, _ASSIGNED + _RULES)


def secrets_in(text: str, suspected: Suspicions | None = None) -> list[Detection]:
    """Return the secrets in a text, in order, none overlapping another.

    Args:
        text: Any text.
        suspected: What may be in it; None: not known.
    """
    has_run, signs = suspicions(text) if suspected is None else suspected
    formatted = _formatted(text) if has_run else ()
    return apart((*formatted, *_named(text, signs))) if has_run or signs else []


def without_secrets(text: str) -> str:
    """Return the text with a mark in place of each secret that is found in it."""
    return redacted(text, secrets_in(text))


def is_secret_under(name: str, value: str) -> bool:
    """Return whether a value is a secret by the name it has: `{"password": "..."}`."""
    if not _SIGN_OF_A_NAME.search(f"{name}="):
        return False
    assigned = f'{name}="{_QUOTES.sub("x", value)[:512]}'
    return any(
        (found.start, found.end) == (len(name) + 2, len(assigned))
        for found in _named(f'{assigned}"', _signs_in(assigned, _ASSIGNED))
    )


def _signs_in(text: str, rules: Sequence[_Rule]) -> list[tuple[str, _Rule]]:
    lower = text.lower()
    # Of a Chinese text little is left to be looked through.
    plain = lower if lower.isascii() else lower.encode("ascii", "ignore").decode()
    return [
        (sign, rule)
        for rule in rules
        if rule.needs in plain
        for sign, rare in rule.signs
        if rare in plain and sign in (plain if sign.isascii() else lower)
    ]


def _runs(text: str) -> bytes:
    """Return `a` for each key character, and a space for each other one."""
    # One byte a character, so that places in the one are places in the other.
    return text.encode("ascii", "replace").translate(_RUNS)


def _formatted(text: str) -> Iterator[Detection]:
    """Yield keys and tokens that are known by their format."""
    runs = _runs(text)
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
            match = FORMATTED.match(text, place)
            if match is not None:
                done = match.end()
                if text[done - 1 : done + 1].isalnum() and done < end:
                    done = end  # longer than any that is known: none of it may stay
                yield Detection(place, done, FORMATS[(match.lastindex or 1) - 1].kind)
        start = runs.find(_RUN, end)


def _named(text: str, signs: Sequence[tuple[str, _Rule]]) -> Iterator[Detection]:
    """Yield secrets that the words around them give away."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter that is two in lower case would move all places
        lower = text.translate(_ASCII_LOWER)
    for sign, rule in signs:
        place = lower.find(sign)
        while place >= 0:
            match = rule.pattern.match(text, place)
            if match and rule.is_secret(match):
                yield Detection(*match.span("value"), rule.kind)
            place = lower.find(sign, place + len(sign))


# --- what gives a secret away --------------------------------------------------------------------


class _Rule(NamedTuple):
    """A way in which the words around a secret give it away."""

    kind: str
    signs: Sequence[tuple[str, str]]
    """Texts in lower case at which `pattern` is tried: to search for them is cheap. Each with a
    character of it that is no letter, if it has one: that is found a hundred times as fast."""
    pattern: re.Pattern[str]
    """Its group `value` is the secret."""
    is_secret: Callable[[re.Match[str]], bool]
    needs: str = ""
    """In a text without this, in lower case, nothing matches, and no sign is searched for."""


Suspicions = tuple[bool, Sequence[tuple[str, _Rule]]]


def _has_digit(match: re.Match[str]) -> bool:
    return any(map(str.isdigit, match["value"]))


def _is_mixed(match: re.Match[str]) -> bool:
    return _has_digit(match) and any(map(str.isalpha, match["value"]))


_PLACEHOLDER = lazy_pattern(
    r"[$%<{\[*(]+[\w .:/|-]*[%>}\])*]*s?\Z"
    r"|your|my[_-]|example|placeholder|none\Z|null\Z|undefined\Z|(?:x{3}|\.{3}|-{3})"
    r"|(?:api[_-]?key|password|passwd|secret|token|string|text|value|required|optional|default"
    r"|hidden|changed|unchanged|expired|incorrect|invalid|protected)\Z",
    re.IGNORECASE,
)


def _is_value(match: re.Match[str]) -> bool:
    return "://" not in match["value"] and not _PLACEHOLDER.match(match["value"])


def _is_set(match: re.Match[str]) -> bool:
    """Return whether a name is given a value, and not said something of: letters alone do then."""
    between = match["between"]
    if match["element"] or not match["name"].isascii() or match["name"].isupper():
        return True
    return between.strip() in ("=", "＝", ":=") or bool(match["quote"] and set(between) & set(":="))


def _is_password(match: re.Match[str]) -> bool:
    value = match["value"]
    if not _is_value(match) or not value.isascii():
        return False
    if _has_digit(match):
        return True
    is_word = value.isalpha() or (match["quote"] and " " not in value)
    return (is_word and _is_set(match)) or (
        " " not in value and not set(value).isdisjoint("!@#$%^&*+~")
    )


def _is_token(match: re.Match[str]) -> bool:
    value = match["value"]
    if not _is_value(match) or not value.isascii() or " " in value:
        return False
    if len(value) < (8 if _is_set(match) else 12):
        return False
    return _is_mixed(match) or (len(value) >= 24 and value != value.lower() != value.upper())


_ENDS = r"\s'\"`,;<>()\[\]{}|，。；、！？（）【】「」《》“”‘’\u3400-\u9fff"
"""What ends a value without quotes; Chinese that goes on right behind it is not a part of it."""
_QUOTES = lazy_pattern(r"['\"`\r\n]")


def _rule(
    kind: str,
    signs: str,
    pattern: str,
    is_secret: Callable[[re.Match[str]], bool] = _has_digit,
) -> _Rule:
    pairs = [(s, next((c for c in reversed(s) if not c.isalnum()), "")) for s in signs.split("|")]
    return _Rule(kind, pairs, lazy_pattern(pattern, re.IGNORECASE), is_secret)


def _assigned(
    kind: str, signs: str, names: str, is_secret: Callable[[re.Match[str]], bool] = _is_token
) -> _Rule:
    """Return the rule for what is assigned to a name, or said to be it."""
    return _rule(
        kind,
        signs,
        rf"(?<!redacted:)(?P<name>(?:{names})(?:[_-][a-z0-9_-]{{0,16}}+)?[0-9]{{0,2}})['\"`\]]{{0,2}}"
        r"(?P<between>\s{0,4}(?:=>|:?[=＝]|[:：])\s{0,4}|\s{1,3}is:?\s{1,3}|\s?[是为]\s?"
        # `"name": "DB_PASSWORD", "value": "..."`, as deployments and XML have it.
        r"|(?P<element>>\s{0,4})|[\s,]{1,12}['\"]?value['\"]?\s{0,2}[:=]\s{0,2})"
        r"(?P<quote>['\"`]?)(?P<value>(?<=['\"`])[^'\"`\r\n]{6,512}+(?=['\"`])"
        # An ampersand ends a value in an address only.
        rf"|(?<==)[^{_ENDS}&]{{6,512}}+|(?<!['\"`=])(?>[^{_ENDS}]{{6,512}}(?<![.:!?])))"
        # A number of digits or days that follows is what is said of a password.
        r"(?!(?<=[0-9])[位个年月日天次字至到小分秒])(?(element)(?=</))",
        is_secret,
    )


_QUALIFIERS = (
    "api|access|auth|secret|private|client|account|encryption|signing|master|shared|subscription"
    "|hmac|deploy|license"
)
_ASSIGNED = (
    _assigned("api_key", _QUALIFIERS, rf"(?:{_QUALIFIERS})[ _.-]?key")._replace(needs="key"),
    _assigned("api_key", "_key=", r"(?-i:(?<=[A-Z0-9])_KEY)(?==)"),  # of the environment
    _assigned("api_key", zh := "密钥|密匙|秘钥|私钥", zh),
    _assigned("token", zh := "token|令牌", zh),
    _assigned("token", "auth", r"(?<=_)auth(?==)|(?<=\")auth(?=\")"),  # of npm and Docker
    _assigned("secret", "secret|credential|sig=", "secret|credential|sig(?==)"),
    _assigned(
        "password",
        "pass|pwd|密码|口令|授权码",
        r"pass(?:word|wd|phrase|code)|(?<=_)pass|pass(?==)|pwd|密码|口令|授权码",
        _is_password,
    ),
)
_SIGN_OF_A_NAME = lazy_pattern(
    "|".join(sign for rule in _ASSIGNED for sign, _ in rule.signs), re.IGNORECASE
)
_KEY_LINES = r"(?:(?:\\[nr]|\s)*+[A-Za-z0-9+/=]{16,}+)"
_RULES = (
    _rule(
        "private_key",
        "-----begin",
        r"(?P<value>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,20000}+-----END [A-Z0-9 ]{0,60}-----"
        # A chunk that ends in the middle of a key.
        rf"|{_KEY_LINES}*+))",
        bool,
    ),
    _rule(
        "private_key",  # PuTTY's
        "private-lines:",
        rf"private-lines:[ ]?[0-9]{{1,3}}(?P<value>{_KEY_LINES}++)",
        bool,
    ),
    _rule(
        "authorization",
        "authorization",
        r"authorization['\"]?\s{0,2}[:=]\s{0,2}['\"]?(?:[A-Za-z][\w-]{1,20}\s{1,4})?"
        r"(?P<value>[A-Za-z0-9._~+/=:-]{8,4096}+)",
    ),
    _rule("bearer_token", "bearer", r"bearer\s{1,4}['\"]?(?P<value>[A-Za-z0-9._~+/=-]{16,4096}+)"),
    _rule(
        "cookie",
        "cookie",
        r"cookie['\"]?\s{0,2}[:=]\s{0,2}['\"]?"
        r"(?P<value>[^\s=;,'\"]{1,64}=[^\r\n'\"]{8,8192}+)",
    )._replace(needs="="),
    _rule(
        "cookie",
        "sess|sid=",
        r"(?:sess(?:ion)?(?:[_.-]?id)?|sid)=['\"]?(?P<value>[A-Za-z0-9%._~+/=-]{16,2048}+)",
    )._replace(needs="="),
    _rule(
        "password",
        "identified",
        r"identified\s{1,3}by\s{1,3}(?:password\s{1,3})?['\"](?P<value>[^'\"\r\n]{4,256}+)['\"]",
    ),
    _rule(
        "password",  # an option of a command
        "--",
        rf"--[a-z-]{{0,24}}?(?:password|token|secret|key)\s{{1,2}}['\"]?(?P<value>[^{_ENDS}]{{6,512}}+)",
    ),
    _rule(
        "password",  # of curl
        "-u",
        r"(?-i:-(?:u|-user))[ =]['\"]?(?!\d+:)[^\s:'\"]{1,64}+:(?P<value>[^\s'\"]{4,128}+)",
    )._replace(needs=":"),
    _rule(
        "password",  # in .netrc
        "login",
        r"login\s{1,3}\S{1,64}\s{1,3}password\s{1,3}(?P<value>\S{4,256}+)",
    )._replace(needs="password"),
    _rule(
        "password",
        "://",
        r"://[^\s:@/'\"<>\[]{0,128}+:(?P<value>[^\s@/'\"<>]{1,256}+)@",
        _is_value,
    )._replace(needs="@"),
    _rule("token", "://", r"://(?P<value>[A-Za-z0-9_~+=%-]{16,256}+)@", _is_mixed),
    _rule(
        "token",  # in the query of an address
        "?|&",
        r"[?&][a-z0-9_-]{0,24}?(?:key|code|auth|signature|ticket|token)="
        r"(?P<value>[A-Za-z0-9%._~+/=-]{16,2048}+)",
        _is_mixed,
    )._replace(needs="="),
)
