"""Keys, tokens and passwords in a text, found by their format or by the name they are given.

Why not a library: detect-secrets scans files line by line and reports lines, and its patterns of
providers are older than their keys; gitleaks' rules are made for source code, in another language.
The formats of providers' keys follow what their documentation says of the prefix.

Cost: everything that a provider gives out has a long run of key characters, and a name that gives
a value away is followed by one; so a clean text is passed over by substring searches alone. Every
pattern is matched at a place that such a search found, and every repetition in it is bounded or
possessive, so that the time is linear in the text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ragmonitor.patterns import lazy_pattern
from ragmonitor.redaction.detections import Detection, apart, redacted
from ragmonitor.redaction.key_formats import BEGINS, FORMATTED, MIN_RUN, PLACES, kind_of

_KEY_CHARACTERS = string.ascii_letters + string.digits + "_-.~"
_RUNS = bytes(0x61 if chr(code) in _KEY_CHARACTERS else 0x20 for code in range(256))
_RUN = b"a" * MIN_RUN
_BEFORE = 64
"""A key may begin so far before its run; no key has a space."""

_NAMES = ("key", "token", "secret", "pass", "pwd", "credential", "sig=")
_NAMES_ZH = ("密码", "密钥", "密匙", "秘钥", "私钥", "口令", "令牌", "授权码")
_QUALIFIES_KEY = lazy_pattern(
    r"(?:api|access|auth|secret|private|client|account|encryption|signing|master|shared"
    r"|subscription|hmac|deploy|license)[ _.-]?\Z"
)
_ASSIGNED = lazy_pattern(
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
_QUOTED = lazy_pattern(r"[^'\"`\r\n]{6,512}+(?=['\"`])")
_BARE = lazy_pattern(
    r"[^\s'\"`,;<>()\[\]{}|&，。；、！？（）【】「」《》“”‘’\u3400-\u9fff]{6,512}+"
)
"""Chinese that goes on right behind a value is not a part of it."""
_SPOKEN = lazy_pattern(
    r"[^\s'\"`,;<>()\[\]{}|，。；、！？（）【】「」《》“”‘’\u3400-\u9fff]{6,512}+"
)
"""As `_BARE`, but for what follows a colon, where no `&` begins the next field of an address."""
_NO_PASSWORD = lazy_pattern(r"(?:by|com|over|sur|tres|under)\Z")
"""Before `pass`, which is the end of another word then."""
_QUANTITY = lazy_pattern(
    r"\d{1,4}(?:[.:/-]\d{1,4}){0,8}(?:-?(?:eur|usd|gbp|chf|cny|rmb|[ap]m|h|hrs?|hours?|mins?|minutes?"
    r"|days?|weeks?|months?|years?|k?m|ft)(?:[/-].*)?)?\Z",
    re.IGNORECASE,
)
"""What a pass costs, how long and when it holds, how high it lies: `Day pass: 149.99 EUR`."""
_COUNTED_ZH = ("位", "个", "年", "月", "日", "天", "次", "字", "至", "到", "小时", "分钟", "秒")
"""Behind a number: what a password is said to have, or how long it holds."""
_PASSWORDS = ("pass", "pwd", "密码", "口令", "授权码")
_OPTION = lazy_pattern(r"--[a-z0-9-]{0,24}\Z|\blogin\s{1,3}\S{1,64}\s{1,3}\Z")
"""Before a name that has its value behind a space: an option of a command, a line of `.netrc`."""
_OF_A_VARIABLE = lazy_pattern(r"[A-Z0-9]_[A-Z0-9_]{0,40}\Z")
_PLACEHOLDER = lazy_pattern(
    r"[$%<{\[*(]|your|my[_-]|example|placeholder|none\Z|null\Z|undefined\Z|(?:x{3}|\.{3}|-{3})"
    r"|(?:api[_-]?key|password|passwd|secret|token|string|text|value|required|optional|default"
    r"|hidden|changed|unchanged|expired|incorrect|invalid|protected)\Z",
    re.IGNORECASE,
)
_COOKIES = lazy_pattern(r"cookie['\"]?\s{0,2}[:=]\s{0,2}(?P<pairs>[^\r\n]{8,8192}+)", re.IGNORECASE)
_COOKIE = lazy_pattern(r"=(?P<value>[A-Za-z0-9%._~+/|:-]{16,4096}+)")
_PUTTY = lazy_pattern(r"private-lines:[ ]?[0-9]{1,3}", re.IGNORECASE)
_KEY_BEGINS = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_ENDS = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_LINES = lazy_pattern(r"(?:(?:\\[nr]|\s)*+[A-Za-z0-9+/=]{16,}+)*+")
_MAX_KEY = 20_000
"""Characters of a private key that are searched for its end."""


def secrets_in(text: str) -> list[Detection]:
    """Return the secrets in a text, in order, none overlapping another."""
    return apart((*_formatted(text), *_named(text)))


def without_secrets(text: str) -> str:
    """Return the text with a mark in place of each secret that is found in it."""
    return redacted(text, secrets_in(text))


def is_secret_under(name: str, value: str) -> bool:
    """Return whether a value is a secret by the name it has: `{"password": "..."}`."""
    text = name.lower().replace(" ", "_") + "="
    assigned = _ASSIGNED.search(text)
    if assigned is None or assigned.end() != len(name) + 1:
        return False
    if not _gives_away(assigned, text, assigned.start()):
        return False
    return _is_secret(value, _kind(assigned["name"]), quoted=True, min_length=6)


def _formatted(text: str) -> Iterator[Detection]:
    """Yield keys and tokens that are known by their format."""
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
            match = FORMATTED.match(text, place)
            if match is not None:
                done = match.end()
                if text[done - 1 : done + 1].isalnum() and done < end:
                    done = end  # longer than any that is known: none of it may stay
                yield Detection(place, done, kind_of(match))
        start = runs.find(_RUN, end)


def _named(text: str) -> Iterator[Detection]:
    """Yield secrets that the words around them give away."""
    lower = _lower(text)
    for name in _NAMES if text.isascii() else _NAMES + _NAMES_ZH:
        for place in _places(lower, name):
            yield from _assigned(text, lower, place)
    for rule in _RULES:
        if rule.needs not in text:
            continue
        for sign in rule.signs:
            for place in _places(lower, sign):
                match = rule.pattern.match(text, place)
                if match and rule.is_secret(match):
                    yield Detection(*match.span("value"), rule.kind)
    yield from _cookies(text, lower)
    yield from _private_keys(text, lower)


def _cookies(text: str, lower: str) -> Iterator[Detection]:
    if "=" not in text:
        return
    done = 0
    for place in _places(lower, "cookie"):
        header = _COOKIES.match(text, place) if place >= done else None
        if header is not None:
            done = header.end()
            for match in _COOKIE.finditer(text, *header.span("pairs")):
                if _has_digit(match["value"]):
                    yield Detection(*match.span("value"), "cookie")


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


def _assigned(text: str, lower: str, place: int) -> Iterator[Detection]:
    match = _ASSIGNED.match(text, place)
    if match is None or not _gives_away(match, lower, place):
        return
    if lower.endswith("[redacted:", 0, place):  # a mark of ours
        return
    if match["option"] and not _OPTION.search(lower, max(0, place - 90), place):
        return
    quoted = bool(match["quote"])
    is_spoken = ":" in (match["assigned"] or "") and "=" not in match["assigned"]
    value = (_QUOTED if quoted else _SPOKEN if is_spoken else _BARE).match(text, match.end())
    if value is None or (match["element"] and not text.startswith("</", value.end())):
        return
    words = value[0] if quoted else value[0].rstrip(".:!?")
    if is_spoken and not quoted and match["name"].lower() == "pass" and _QUANTITY.match(words):
        return
    if text.startswith(_COUNTED_ZH, value.end()) and not any(map(str.isalpha, words)):
        return
    kind = _kind(match["name"])
    # In prose a name is followed by all sorts of things: what stands there must look the part.
    assigned = match["assigned"] or match["element"] or ""
    min_length = 6 if kind == "password" else 8 if quoted or "=" in assigned else 12
    plain = words.isalpha() and _is_set(text, place, match, assigned)
    if _is_secret(words, kind, quoted=(quoted and bool(assigned)) or plain, min_length=min_length):
        yield Detection(value.start(), value.start() + len(words), kind)


def _is_set(text: str, place: int, match: re.Match[str], assigned: str) -> bool:
    """Return whether a name is given a value, and not said something of: letters alone do then."""
    if match["element"] or match["name"] in _NAMES_ZH or assigned in ("=", "＝", ":="):
        return True
    return _OF_A_VARIABLE.search(text, max(0, place - 42), place) is not None


def _gives_away(match: re.Match[str], lower: str, place: int) -> bool:
    """Return whether a name is one of secrets: `key` alone is none, `api_key` is one."""
    name = match["name"].lower()
    if name == "pass":
        return _NO_PASSWORD.search(lower, max(0, place - 5), place) is None
    if name != "key":
        return True
    return _QUALIFIES_KEY.search(lower, max(0, place - 14), place) is not None


def _kind(name: str) -> str:
    name = name.lower()
    if name.startswith(_PASSWORDS):
        return "password"
    if "key" in name or name in ("密钥", "密匙", "秘钥", "私钥"):
        return "api_key"
    return "token" if name in ("token", "令牌") else "secret"


def _is_secret(value: str, kind: str, *, quoted: bool, min_length: int) -> bool:
    if len(value) < min_length or not value.isascii():
        return False
    if "://" in value or _PLACEHOLDER.match(value):
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


def _private_keys(text: str, lower: str) -> Iterator[Detection]:
    for place in _places(lower, "private-lines:"):
        begin = _PUTTY.match(text, place)
        end = begin and _KEY_LINES.match(text, begin.end())
        if begin is not None and end is not None and end.end() > begin.end():
            yield Detection(begin.end(), end.end(), "private_key")
    done = 0
    for place in _places(lower, "-----begin"):
        begin = _KEY_BEGINS.match(text, place) if place >= done else None
        if begin is None:
            continue
        ends = lower.find("-----end", begin.end(), begin.end() + _MAX_KEY)
        end = _KEY_ENDS.match(text, ends) if ends >= 0 else None
        if end is None:  # a chunk that ends in the middle of a key
            end = _KEY_LINES.match(text, begin.end())
        done = end.end() if end is not None else begin.end()
        yield Detection(place, done, "private_key")


def _value_has_digit(match: re.Match[str]) -> bool:
    return _has_digit(match["value"])


def _value_is_mixed(match: re.Match[str]) -> bool:
    return _is_mixed(match["value"])


@dataclass(frozen=True, slots=True)
class _Rule:
    """A way in which the words around a secret give it away."""

    kind: str
    signs: tuple[str, ...]
    """Texts in lower case at which `pattern` is tried: to search for them is cheap."""
    pattern: re.Pattern[str]
    """Its group `value` is the secret."""
    is_secret: Callable[[re.Match[str]], bool]
    needs: str
    """A character without which `pattern` matches nowhere: to search for one is cheaper still."""


def _rule(
    kind: str,
    signs: tuple[str, ...],
    pattern: str,
    is_secret: Callable[[re.Match[str]], bool] = _value_has_digit,
    *,
    needs: str = "",
) -> _Rule:
    return _Rule(kind, signs, lazy_pattern(pattern, re.IGNORECASE), is_secret, needs)


_AUTHORIZES = lazy_pattern(r"authorization['\"]?\s{0,2}[:=]\s{0,2}['\"]?\Z", re.IGNORECASE)
_QUERY_BEGINS = lazy_pattern(r"[?&][a-z0-9_-]{0,24}\Z", re.IGNORECASE)


def _authorizes(match: re.Match[str]) -> bool:
    place = match.start()
    return _AUTHORIZES.search(match.string, max(0, place - 24), place) is not None


def _is_in_query(match: re.Match[str]) -> bool:
    place = match.start()
    if _QUERY_BEGINS.search(match.string, max(0, place - 26), place) is None:
        return False
    return _value_is_mixed(match)


_RULES = (
    _rule(
        "bearer_token", ("bearer",), r"bearer\s{1,4}['\"]?(?P<value>[A-Za-z0-9._~+/=-]{16,4096}+)"
    ),
    _rule(
        "cookie",
        ("sess", "sid="),
        r"(?:sess(?:ion)?(?:[_.-]?id)?|sid)=['\"]?(?P<value>[A-Za-z0-9%._~+/=-]{16,2048}+)",
        needs="=",
    ),
    _rule(
        "password",
        ("identified",),
        r"identified\s{1,3}by\s{1,3}(?:password\s{1,3})?['\"](?P<value>[^'\"\r\n]{4,256}+)['\"]",
    ),
    _rule(
        "password",
        ("-u",),
        r"(?-i:-(?:u|-user))[ =]['\"]?(?P<user>[^\s:'\"]{1,64}+):(?P<value>[^\s'\"]{4,128}+)",
        lambda match: _value_has_digit(match) and not match["user"].isdigit(),
        needs=":",
    ),
    _rule(
        "basic_auth", ("basic ",), r"basic\s{1,4}(?P<value>[A-Za-z0-9+/=]{8,1024}+)", _authorizes
    ),
    _rule(
        "token",  # of any other scheme
        ("authorization",),
        r"authorization['\"]?\s{0,2}[:=]\s{0,2}['\"]?(?:[A-Za-z][\w-]{1,20}\s{1,4})?"
        r"(?P<value>[A-Za-z0-9._~+/=:-]{16,4096}+)",
    ),
    _rule(
        "password",
        ("://",),
        r"://[^\s:@/'\"<>\[]{0,128}+:(?P<value>[^\s@/'\"<>]{1,256}+)@",
        lambda match: not _PLACEHOLDER.match(match["value"]),
        needs="@",
    ),
    _rule(
        "token",
        ("://",),
        r"://(?P<value>[A-Za-z0-9_~+=%-]{16,256}+)@",
        _value_is_mixed,
        needs="@",
    ),
    _rule(
        "token",
        ("key=", "code=", "auth=", "signature=", "ticket="),
        r"(?:key|code|auth|signature|ticket)=(?P<value>[A-Za-z0-9%._~+/=-]{16,2048}+)",
        _is_in_query,
        needs="=",
    ),
)
