"""Keys, tokens and passwords: what is found, what is left alone, and how long it takes."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.redaction.credentials import is_secret_under, secrets_in, without_secrets
from ragmonitor.redaction.detections import redacted
from tests.support.timing import seconds
from tests.unit.redaction.formats import SECRETS

HEX32 = "0123456789abcdef0123456789abcdef"
B62 = "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2Yz3Ab4Cd5Ef6Gh7Ij8Kl9"
WORDS = re.compile(r"\w+")


KEYS = [each.value for each in SECRETS if each.text == f"Use {each.value} for this."]


@pytest.mark.parametrize("around", ["{}", "密钥用{}。", '{{"k": "{}"}}', "k={}\n"])
def test_what_a_provider_gives_out_is_found_by_its_format(around: str):
    """In Chinese without spaces, in JSON, in a line of settings; nothing of it stays."""
    for secret in KEYS:
        text = around.format(secret)
        assert secret[-6:] not in redacted(text, secrets_in(text)), secret


@pytest.mark.parametrize(
    "secret",
    [
        "whsec_FM710aunQi+EPCqPbrk9JwTm",
        "glsa_NULVNRg40/LE_WWAkGZpZXxy",
        f"ABSK{'Xpy0y9cn/R=' * 12}",
        f"$2a$14${'NAA/yzC6YV9' * 5}"[:60],
        "$argon2id$v=19$m=65536,t=3$KcdY,RNfulk/ynY",
    ],
)
def test_signs_of_base64_do_not_hide_a_key(secret: str):
    """However short the runs of letters and digits between them are."""
    assert secret[-6:] not in without_secrets(f"Use {secret} for this.")


def test_a_value_that_begins_as_a_placeholder_is_none():
    """Generated passwords begin with any sign; `$NAME`, `%(name)s` and `****` stay."""
    assert secrets_in("SECRET_KEY = '%Iy$qnwg4MEnstVmr9QumL#n4ZzBkdG*vV3R'")
    for text in ("'$SECRET_KEY'", "'%(secret_key)s'", "'${SECRET_KEY}'", "'**********'"):
        assert secrets_in(f"SECRET_KEY = {text}") == []


@pytest.mark.parametrize(
    "text",
    [
        "Install scikit-learn (sk-learn) and sk-image.",
        "The class sk-fading-circle-loader-12 is CSS.",
        "ghp_ and github_pat_ begin tokens of GitHub.",
        "id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 and sha256 " + HEX32 * 2,
        "RecursiveCharacterTextSplitter and ParentDocumentRetriever are classes.",
        "SKU SK1234567890 is in stock",
    ],
)
def test_what_only_looks_a_little_like_it_stays(text: str):
    """Prefixes alone, words with hyphens, addresses, digests and ids are no secrets."""
    assert secrets_in(text) == []


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("api_key=abc12345", "abc12345", "api_key"),
        ("X-API-Key: 9f8e7d6c5b4a3210", "9f8e7d6c5b4a3210", "api_key"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY1", "wJalrXUtnFEMI", "api_key"),
        ("password=hunter22", "hunter22", "password"),
        ('password: "letmein"', "letmein", "password"),
        ("Server=db;Pwd=Pa$$word1;", "Pa$$word1", "password"),
        ("access_token=abcDEF123456&x=1", "abcDEF123456", "token"),
        ("...blob?sv=2024&sig=abc%2Fdef123&se=1", "abc%2Fdef123", "secret"),
        ("密码是abc12345。", "abc12345", "password"),
        ("令牌=abcd1234efgh", "abcd1234efgh", "token"),
    ],
)
def test_a_value_is_given_away_by_its_name(text: str, value: str, kind: str):
    """In settings, JSON, headers, addresses and prose; the name stays, the value goes."""
    found = secrets_in(text)
    cleaned = redacted(text, found)
    assert value not in cleaned
    assert f"[redacted:{kind}]" in cleaned
    assert cleaned[:2] == text[:2]


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=1000, tokens: 4096, tokenizer: cl100k_base",
        "token_type: bearer",
        "Monkey: Capuchin12345",
        "api_key=your_api_key_123",
        "password: required, at least 12 characters",
        "passport: AB1234567",
        "API key: see https://example.com/keys/v2",
        'password: "[redacted:password]"',
    ],
)
def test_a_name_without_a_secret_gives_nothing_away(text: str):
    """Counts, types, placeholders, code, prose and what was redacted before stay."""
    assert secrets_in(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Day pass: 149.99 EUR per adult.",
        "Visitor pass: 08:00-18:00",
        "Monthly pass: 120EUR/month",
        "Khyber Pass: 1070m",
        "Compass: N45E120",
        "Bypass: A40-junction9",
    ],
)
def test_a_pass_that_is_no_password_keeps_its_number(text: str):
    """Else an answer that names the price is held against a chunk in which it is gone."""
    assert secrets_in(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("密码是abc123请勿外传", "abc123"),
        ("初始密码为88669900请尽快修改", "88669900"),
        ("API密钥：sk1234567890abcdef请保密", "sk1234567890abcdef"),
        ("令牌：A1b2C3d4E5f6有效", "A1b2C3d4E5f6"),
        ("password: hunter22请修改", "hunter22"),
    ],
)
def test_chinese_that_goes_on_behind_a_secret_does_not_hide_it(text: str, value: str):
    """It has no spaces, and often no sign there; a number of digits or days is no secret."""
    (found,) = secrets_in(text)
    assert text[found.start : found.end] == value
    assert secrets_in("密码为100000次尝试，密码：8-20位，密码是2024-01-01年") == []


def test_headers_are_cleaned():
    """Bearer and basic authorization go; the words in prose stay."""
    text = f"Authorization: Bearer {B62[:32]}\nauthorization: Basic dXNlcjpwYXNzd29yZA==\n"
    assert redacted(text, secrets_in(text)) == (
        "Authorization: Bearer [redacted:authorization]\n"
        "authorization: Basic [redacted:authorization]\n"
    )
    for prose in (
        "Bearer token authentication is basic authentication's heir.",
        "the bearer of good news",
        "basic understanding12",
    ):
        assert secrets_in(prose) == []


def test_an_address_loses_its_password_only():
    """User, host and database stay, for people to know which it is."""
    text = "postgresql://app:s3cr3t@db.example.com:5432/shop and redis://:pw@cache"
    assert redacted(text, secrets_in(text)) == (
        "postgresql://app:[redacted:password]@db.example.com:5432/shop "
        "and redis://:[redacted:password]@cache"
    )
    for plain in (
        "http://localhost:8080/path?to=a@b.example",
        "git@github.com:org/repo",
        "https://user@example.com",
        "postgres://app:${DB_PASSWORD}@db",
    ):
        assert secrets_in(plain) == []


BODY = "\n".join(B62[:50] for _ in range(4))


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
def test_a_private_key_goes_whole(kind: str):
    """From its first line to its last; a certificate and a public key stay."""
    text = f"before\n-----BEGIN {kind}-----\n{BODY}\n-----END {kind}-----\nafter"
    assert redacted(text, secrets_in(text)) == "before\n[redacted:private_key]\nafter"
    public = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
    assert secrets_in(public) == []


def test_a_private_key_that_a_splitter_cut_goes_too():
    """A chunk that ends in the middle of one keeps nothing of it."""
    cut = redacted(text := f"-----BEGIN PRIVATE KEY-----\\n{BODY}", secrets_in(text))
    assert cut == "[redacted:private_key]"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("password", "hunter2", True),
        ("API Key", "abc123def", True),
        ("key", "abc123def", False),
        ("password", "$PASSWORD", False),
    ],
)
def test_a_name_in_a_mapping_gives_its_value_away(name: str, value: str, secret: bool):
    """`{"password": "..."}` is found by the key, for the value alone says nothing."""
    assert is_secret_under(name, value) is secret


fragments = st.lists(
    st.one_of(
        st.sampled_from([*KEYS, "api_key=", "password: ", "密码是", "Bearer "]),
        st.text(max_size=12),
    ),
    max_size=8,
).map("".join)


@given(text=fragments)
def test_what_is_found_lies_apart_and_in_order(text: str):
    """Every place is inside the text, after the one before it."""
    last = 0
    for secret in secrets_in(text):
        assert last <= secret.start < secret.end <= len(text)
        last = secret.end


@given(before=st.text(max_size=30), after=st.text(max_size=30), secret=st.sampled_from(KEYS))
def test_nothing_around_a_secret_hides_it(before: str, after: str, secret: str):
    """Whatever stands before and after, unless it makes it a part of a longer word."""
    text = f"{before} {secret} {after}"
    assert secret not in redacted(text, secrets_in(text))


def test_a_clean_text_costs_little():
    """Ten kilobytes of prose take a few times as long as to find its words.

    Each of the patterns for itself would take far longer: their signs are looked for first.
    """
    chosen = random.Random(7)
    words = ["retrieval", "the", "key", "answers", "token", "of", "policy", "shipping", "refund"]
    text = " ".join(chosen.choice(words) for _ in range(3_000))[:10_000]
    assert secrets_in(text) == []
    patterns = min(seconds(secrets_in, text) for _ in range(20))
    assert patterns < 15 * min(seconds(WORDS.findall, text) for _ in range(20))
