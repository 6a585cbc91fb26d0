"""What redaction finds of the formats that are documented, what it does not, and what it costs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ragmonitor.redaction import PersonalData, secrets_in, without_secrets
from ragmonitor.redaction.key_formats import FORMATS
from ragmonitor.redaction.personal_formats import FORMATS as NUMBERS
from ragmonitor.redaction.personal_formats import formatted_in
from tests.support.scripts import ROOT
from tests.support.timing import grows_at_most
from tests.unit.redaction.formats import PERSONAL, SECRETS, Format

installed = pytest.mark.skipif(
    importlib.util.find_spec("stdnum") is None, reason="needs ragmonitor[personal]"
)
DATA = Path(os.environ.get("TESTS_DATA", "../shared/data")).absolute()
real_texts = pytest.mark.skipif(
    not DATA.is_dir(), reason="needs public texts; TESTS_DATA names their folder"
)


@pytest.fixture(scope="module")
def personal():
    """Return what finds by pattern, in no need of a model of spaCy's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragmonitor.redaction.personal._best_model", lambda _language: None)
        yield PersonalData()


@pytest.mark.parametrize("told", SECRETS, ids=[each.name for each in SECRETS])
def test_a_format_of_secrets_is_found_as_documented(told: Format):
    """Nothing of the value stays, neither its end; what is not found is known not to be."""
    cleaned = without_secrets(told.text)
    assert (told.value not in cleaned) is told.found
    if told.found:
        assert told.value[-6:] not in cleaned
        assert "[redacted:" in cleaned


@pytest.mark.parametrize("told", SECRETS, ids=[each.name for each in SECRETS])
def test_what_was_redacted_is_left_alone(told: Format):
    """A mark is no secret: redaction of what was redacted changes nothing."""
    cleaned = without_secrets(told.text)
    assert without_secrets(cleaned) == cleaned


@installed
@pytest.mark.parametrize("told", PERSONAL, ids=[each.name for each in PERSONAL])
def test_a_format_of_personal_data_is_found_as_documented(personal, told: Format):
    """Nothing of the value stays, neither its end; what is not found is known not to be."""
    cleaned = personal(told.text)
    assert (told.value not in cleaned) is told.found
    if told.found:
        assert told.value[-5:] not in cleaned


# --- linear


REPEATED = sorted(
    {
        *(shape.begins.replace("\\", "") for shape in FORMATS),
        *("1//0a", "sk_a", "a.", "pat", "-us1", "AZDO", "a" * 31 + ".", "0" * 32 + "."),
        *("$2b$", "$argon2id$", "LS0tLS1CRUdJTi", "MTa.", "discord.com/api/", "hooks.slack.com/"),
        *("password=", "password:", "password is ", "--password ", "login a password ", "密码："),
        *("授权码＝", "<password>", 'password" value="', "password, value=", "DB_PASSWORD=a"),
        *(
            "cookie: ",
            "cookie: a=",
            "set-cookie",
            "sessionid=",
            "sid=",
            "sess",
            "=",
            "key=",
            "?key=",
        ),
        *(
            "&code=",
            "authorization: ",
            "authorization: a ",
            "bearer a",
            "basic ",
            "identified by '",
        ),
        *("-u a:", "-u=", "--user a:", "://a", "://a:b", "https://aaaaaaaaaaaaaaaa1", "://:"),
        *("private-lines: 1\n", "-----begin ", "-----BEGIN PRIVATE KEY-----", "a\\n", "AAAA1:"),
        *("token token ", "secret_key_", "pass_", "\t", "\n", " ", "1", "a1", "密", "İ"),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("part", REPEATED)
def test_secrets_are_looked_for_in_linear_time(part: str):
    """Four times the text takes well below sixteen times as long, whatever it is made of."""
    small, large = ((part * (size // len(part) + 1))[:size] for size in (15_000, 60_000))
    assert grows_at_most(10, secrets_in, small, large, least_s=2e-3)


OF_NUMBERS = [
    *("1", "1 ", "1-", "1.", "12 ", "A1", "A12 ", "11010519491231", "1101 ", "6228 4", "62", "９"),
    *(
        "9",
        "90-",
        "AB12",
        "X1",
        "passport ",
        "passport no. ",
        "护照号码：",
        "SIN: 1 ",
        "1(",
        "((",
        "+",
    ),
    *("+1", "++1", "( 1", "a@", "@", "a.", "%", "'", '"', "<", "-", "e.g.", "0x", "DE89 ", "::1"),
    *("中", "中1", "（", "，", "a@a.", "license: A", "\n1", "200101-"),
]


@installed
@pytest.mark.parametrize("part", OF_NUMBERS)
def test_numbers_are_looked_for_in_linear_time(part: str):
    """The same of each pattern of ours for personal data."""

    def look(text):
        return [*formatted_in(text)]

    small, large = ((part * (size // len(part) + 1))[:size] for size in (10_000, 40_000))
    assert grows_at_most(10, look, small, large, least_s=2e-3)
    assert len(NUMBERS) > 20


@installed
@pytest.mark.parametrize("part", OF_NUMBERS)
def test_personal_data_are_looked_for_in_linear_time(personal, part: str):
    """The same of the whole, with the tokenizer of spaCy and the patterns of Presidio."""
    personal("warm")
    small, large = ((part * (size // len(part) + 1))[:size] for size in (5_000, 20_000))
    assert grows_at_most(10, personal, small, large, least_s=0.05)


def test_the_commands_of_the_page_run():
    """Each measures what it says, from the repository's root."""
    page = (ROOT / "docs/privacy.md").read_text("utf-8")
    commands = re.findall(r"^python -m timeit .*?(?=^```)", page, re.DOTALL | re.MULTILINE)
    assert len(commands) == 2
    for command in commands if importlib.util.find_spec("stdnum") else commands[:1]:
        _, _, _, *arguments = shlex.split(command)
        done = subprocess.run(
            [sys.executable, "-m", "timeit", "-r", "1", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "per loop" in done.stdout


# --- what stays


@real_texts
def test_real_texts_have_no_secrets():
    """Of thousands of questions, answers and passages in two languages not one is altered."""
    altered = [text for text in real() if secrets_in(text)]
    assert altered == []


@real_texts
@installed
def test_few_real_texts_have_numbers_of_people(personal):
    """Encyclopaedias have few; what is found there is a false alarm more often than not."""
    texts = list(real(answers=True))[::5]
    altered = [text for text in texts if personal(text) != text]
    assert len(altered) <= 0.005 * len(texts), altered[:20]


def real(*, answers=False):
    """Yield the texts of each file, or its answers alone."""
    for file in sorted(DATA.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            told = json.loads(line)
            yield from (
                (told["answer"],)
                if answers
                else (
                    told["question"],
                    told["answer"],
                    *told["contexts"],
                )
            )


@pytest.mark.parametrize(
    "text",
    [
        "password=required, password=string, password=None, password: optional",
        "<password>****</password> and <Token>$TOKEN</Token>",
        "the login page asks for a password twice",
        "https://user@example.com and https://firstname.lastname@example.com/a",
        "Authorization: required. The authorization of payments takes 3 days.",
        "密码：请联系管理员；密码是必填项；密码: required",
        "live_data and test_results, secret_santa, sk_learn, re_match, pa-system, fc-barcelona",
        "v1.0-rc1 of api-gateway, sdk-for-python, pat-eu1, MTA-STS.example.records.org",
    ],
)
def test_words_that_only_look_a_little_like_secrets_stay(text: str):
    """Types, code, placeholders, groups, names and prose."""
    assert without_secrets(text) == text


@installed
@pytest.mark.parametrize(
    "text",
    [
        "From 1887 to 1889, 330 metres, 12345678 people, 3.14159265, 2024-01-15, 10:30-12:45.",
        "ISBN 978-3-16-148410-0, DOI 10.1000/182, RFC 2822, CVE-2024-12345, build 20240115123456",
        "公元1949年10月1日，人口1409670000，全长21196公里，编号1234567890123456。",
        "IMEI 350123451234567 and order 100000000000000000 and 123456789012345",
        "A passport is needed; passports issued in 2020 are valid. 护照有效期为10年。",
        "Flight AB1234, model B12345678, part X1234567A, gene BRCA2, HTTP 404",
    ],
)
def test_numbers_of_the_matter_are_nobodys(text: str):
    """Years, counts, books, orders, and numbers whose check digit is wrong."""
    assert [*formatted_in(text)] == []
