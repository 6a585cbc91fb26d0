"""Formats of the keys and tokens that providers give out, which are known by how they begin.

Each follows what its provider's documentation says of the prefix and the alphabet. Where a length
is documented the pattern allows for some more, since providers lengthen their keys.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ragmonitor.runtime.patterns import lazy_pattern


class Format(NamedTuple):
    """The format of one kind of keys."""

    kind: str
    """Stands in the mark that replaces the key."""
    begins: str
    """A short pattern to search for: that is cheap, and a search for the whole key is not."""
    rest: str
    """The pattern of what follows; with `begins` it has a run of at least `MIN_RUN` characters of
    keys. Every repetition is bounded."""


MIN_RUN = 20
"""Characters; every key has a run of key characters at least as long."""
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_END = r"(?![A-Za-z0-9])"
_HAS_DIGIT = r"(?=[A-Za-z0-9_-]{0,200}?[0-9])"


def _api_keys(*rows: tuple[str, str]) -> list[Format]:
    return [Format("api_key", begins, rest) for begins, rest in rows]


FORMATS = (
    # --- clouds
    Format("aws_key", r"AKIA|ASIA|ABIA|ACCA", rf"[A-Z0-9]{{16}}{_END}"),
    Format("aws_key", r"A3T", rf"[A-Z0-9]{{17}}{_END}"),
    Format("aws_key", r"ABSK", r"[A-Za-z0-9+/=]{100,400}"),
    Format("aws_key", r"bedrock-api-key-", r"[A-Za-z0-9+/=]{40,4096}"),
    Format("google_key", r"AIza", r"[A-Za-z0-9_-]{35}"),
    Format("google_key", r"GOCSPX-", r"[A-Za-z0-9_-]{24,40}"),
    Format("google_key", r"ya29\.(?:c\.)?", r"[A-Za-z0-9_-]{20,512}"),
    Format("google_key", r"1//0", r"[A-Za-z0-9_-]{40,200}"),
    Format("google_key", r"AQ\.Ab", r"[A-Za-z0-9_-]{30,100}"),
    Format("google_key", r"GOOG", rf"[A-Z0-9]{{20,57}}{_END}"),  # HMAC of Cloud Storage
    Format("google_key", r"AAAA", r"[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{100,200}"),  # Firebase messaging
    Format("azure_key", r"[A-Za-z0-9_~.]{3}[0-9]Q~", r"[A-Za-z0-9_~.-]{31,34}"),
    Format("azure_key", r"[A-Za-z0-9]{52}JQQJ99", r"[A-Za-z0-9]{20,40}"),
    Format("azure_key", r"[A-Za-z0-9]{76}AZDO", rf"[A-Za-z0-9]{{4}}{_END}"),
    *_api_keys(
        (r"LTAI", rf"[A-Za-z0-9]{{16,24}}{_END}"),  # Alibaba Cloud
        (r"STS\.N", r"[A-Za-z0-9]{20,40}"),
        (r"AKID", rf"[A-Za-z0-9]{{32}}{_END}"),  # Tencent Cloud
        (r"AKLT", r"[A-Za-z0-9_-]{36,60}"),  # Volcengine
        (r"ALTAK", r"[A-Za-z0-9-]{18,40}(?:/[0-9a-f]{32,64})?"),  # Baidu
        (r"do[opr]_v1_", r"[0-9a-f]{64}"),  # DigitalOcean
        (r"HRKU-", r"[A-Za-z0-9_-]{30,80}"),  # Heroku
        (r"vc[aikpr]_", rf"{_HAS_DIGIT}[A-Za-z0-9]{{24,80}}{_END}"),  # Vercel
        (r"v1\.0-", r"[0-9a-f]{24}-[0-9a-f]{100,200}"),  # Cloudflare
        (r"cf(?:ut|at|k)_", r"[A-Za-z0-9]{40,60}"),
        (r"hv[sbr]\.", r"[A-Za-z0-9_-]{20,255}"),  # Vault
        (r"AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    ),
    Format("api_key", r"[A-Za-z0-9]{14}\.atlasv1\.", r"[A-Za-z0-9_=-]{60,80}"),  # Terraform
    # --- code and its delivery
    Format("github_token", r"gh[pousr]_", r"[A-Za-z0-9]{36,255}"),
    Format("github_token", r"github_pat_", r"[A-Za-z0-9_]{50,255}"),
    Format(
        "gitlab_token",
        r"gl(?:pat|dt|ft|soat|rtr?|wt|ptt|cbt|agent|oas|imt|ffct)-",
        r"[A-Za-z0-9_.-]{20,300}",
    ),
    Format("gitlab_token", r"GR1348941", r"[A-Za-z0-9_-]{20,60}"),
    *_api_keys(
        (r"npm_", r"[A-Za-z0-9]{36}"),
        (r"pypi-", r"[A-Za-z0-9_-]{50,255}"),
        (r"rubygems_", r"[0-9a-f]{48}"),
        (r"dckr_(?:pat|oat)_", r"[A-Za-z0-9_-]{27,60}"),
        (r"ATATT3|ATCTT3", r"[A-Za-z0-9_=-]{50,255}"),  # Atlassian
        (r"ATBB", rf"[A-Za-z0-9]{{32}}{_END}"),  # Bitbucket
        (r"PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
        (r"crsr_", r"[0-9a-f]{64}"),
    ),
    # --- models
    Format(
        "api_key",  # of OpenAI, Anthropic, OpenRouter, DeepSeek, Qwen, Moonshot, Langfuse
        r"sk-",
        rf"{_HAS_DIGIT}(?=[A-Za-z0-9_-]{{0,200}}?[A-Za-z0-9]{{10}})[A-Za-z0-9_-]{{20,255}}",
    ),
    *_api_keys(
        (r"gsk_", r"[A-Za-z0-9]{20,100}"),  # Groq
        (r"xai-", r"[A-Za-z0-9]{20,100}"),
        (r"hf_", r"[A-Za-z0-9]{30,60}"),
        (r"r8_", r"[A-Za-z0-9]{30,60}"),  # Replicate
        (r"pplx-", r"[A-Za-z0-9]{30,80}"),
        (r"nvapi-", r"[A-Za-z0-9_-]{40,100}"),
        (r"tgp_v1_", r"[A-Za-z0-9_-]{40,60}"),  # Together
        (r"fw_", rf"(?=[A-Za-z0-9]{{0,23}}?[0-9])[A-Za-z0-9]{{22,30}}{_END}"),  # Fireworks
        (r"csk-", r"[A-Za-z0-9]{40,60}"),  # Cerebras
        (r"pa-", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{43}}{_END}"),  # Voyage
        (r"jina_", r"[A-Za-z0-9_-]{40,80}"),
        (r"fc-", rf"[0-9a-f]{{32}}{_END}"),  # Firecrawl
        (r"wandb_v1_", r"[A-Za-z0-9_]{40,120}"),
        (r"llx-", r"[A-Za-z0-9]{40,60}"),  # LlamaCloud
        (r"lsv2_(?:pt|sk)_", r"[0-9a-f]{32}_[0-9a-f]{10}"),  # LangSmith
        (r"pcsk_", r"[A-Za-z0-9_]{30,100}"),  # Pinecone
        (r"tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{20,60}"),
        (r"dapi", r"[0-9a-f]{32}(?:-[0-9])?"),  # Databricks
    ),
    Format("api_key", r"[0-9a-f]{32}\.", rf"[A-Za-z0-9]{{16}}{_END}"),  # Zhipu
    Format("api_key", rf"{_UUID}:fx", _END),  # DeepL
    # --- payment and shops
    Format("stripe_key", r"[rs]k_(?:live|test|prod|sbox)_", r"[A-Za-z0-9]{16,255}"),
    Format("stripe_key", r"whsec_", r"[A-Za-z0-9+/=]{24,100}"),
    *_api_keys(
        (r"sk_", rf"[0-9a-f]{{48}}{_END}"),  # ElevenLabs
        (r"sq0(?:atp|csp|idp)-", r"[A-Za-z0-9_-]{22,60}"),  # Square
        (r"EAA", r"(?=[A-Za-z0-9_-]{0,79}?[0-9])[A-Za-z0-9_-]{60,300}"),  # Facebook, Square
        (r"shp(?:at|ss|ca|pa|ua|rt)_", r"[0-9a-fA-F]{32}"),  # Shopify
    ),
    # --- messages and offices
    Format("slack_token", r"xox[abcdeoprs]-", r"[A-Za-z0-9%-]{20,300}"),
    Format("slack_token", r"xoxe\.xox[bp]-", r"[A-Za-z0-9-]{20,300}"),
    Format("slack_token", r"xapp-", r"[0-9]-[A-Za-z0-9-]{20,300}"),
    Format(
        "slack_token",
        r"hooks\.slack\.com/",
        r"(?:services|workflows|triggers)/[A-Za-z0-9/]{20,120}",
    ),
    Format(
        "discord_token",
        r"[MN][DTjz]|O[DT]",
        r"[A-Za-z0-9_-]{21,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}",
    ),
    Format("discord_token", r"mfa\.", r"[A-Za-z0-9_-]{80,90}"),
    Format(
        "discord_token",
        r"discord(?:app)?\.com/api/",
        r"(?:v[0-9]{1,2}/)?webhooks/[0-9]{15,21}/[A-Za-z0-9_-]{40,100}",
    ),
    *_api_keys(
        (r"ntn_", r"[A-Za-z0-9]{40,60}"),  # Notion
        (r"00D", r"[A-Za-z0-9]{12}(?:[A-Za-z0-9]{3})?![A-Za-z0-9_.]{80,120}"),  # Salesforce
        (r"secret_", rf"(?=[A-Za-z0-9]{{0,42}}?[0-9])[A-Za-z0-9]{{43}}{_END}"),
        (r"fig[dour]h?_", r"[A-Za-z0-9_-]{36,80}"),  # Figma
        (r"lin_(?:api|oauth)_", r"[A-Za-z0-9]{32,80}"),  # Linear
        (r"pat", rf"[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}"),  # Airtable
        (r"pat-(?:na|eu|ap)[0-9]-", _UUID),  # HubSpot
        (r"SG\.", r"[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}"),  # SendGrid
        (r"SK", rf"[0-9a-f]{{32}}{_END}"),  # Twilio
        (r"key-", rf"[0-9a-f]{{32}}{_END}"),  # Mailgun
        (r"x(?:keysib|smtpsib)-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),  # Brevo
        (r"re_", rf"[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}{_END}"),  # Resend
        (r"open\.(?:feishu\.cn|larksuite\.com)/", rf"open-apis/bot/v2/hook/{_UUID}"),
        (r"(?:outlook|webhook)\.office\.com/webhook", rf"(?:b2)?/{_UUID}[A-Za-z0-9@/-]{{0,200}}"),
    ),
    Format("api_key", r"[0-9a-f]{32}-us", rf"[0-9]{{1,2}}{_END}"),  # Mailchimp
    # Telegram's number is public, and stays.
    Format("api_key", r"(?<=[0-9]:)AA", r"[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    # --- data, maps, meters
    *_api_keys(
        (r"sb_secret_", r"[A-Za-z0-9_-]{20,60}"),  # Supabase
        (r"sbp_", r"(?:oauth_)?[0-9a-f]{40}"),
        (r"mdb_sa_sk_", r"[A-Za-z0-9_-]{40}"),  # MongoDB Atlas
        (r"[ps]k\.eyJ", r"[A-Za-z0-9_-]{20,200}\.[A-Za-z0-9_-]{20,60}"),  # Mapbox
        (r"NR(?:AK|II|JS|AA|IQ|IV)-", r"[A-Za-z0-9_-]{19,40}"),  # New Relic
        (r"sntry[su]_", r"[A-Za-z0-9_=+/]{40,400}"),  # Sentry
        (r"dt0[a-z][0-9]{2}\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),  # Dynatrace
        (r"gl(?:sa|c)_", r"[A-Za-z0-9_=+/]{24,255}"),  # Grafana
        (r"eyJrIjoi", r"[A-Za-z0-9+/_-]{40,400}={0,2}"),
        (r"ph[xs]_", r"[A-Za-z0-9]{40,60}"),  # PostHog
    ),
    Format(
        "jwt",
        r"eyJ",
        r"[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{8,8192}+(?:\.[A-Za-z0-9_-]{0,8192}+){1,3}",
    ),
    # --- what a password became, and keys in base64
    Format("password_hash", r"\$2[abxy]\$", r"[0-9]{2}\$[./A-Za-z0-9]{53}"),
    Format("password_hash", r"\$argon2", r"(?:id?|d)\$[A-Za-z0-9$=,+/.-]{30,300}"),
    Format("password_hash", r"\$(?:[1567y]|apr1|scrypt)\$", r"[A-Za-z0-9$=./,-]{20,200}"),
    Format(
        "password_hash", r"pbkdf2_sha", r"[0-9]{3}\$[0-9]{3,8}\$[A-Za-z0-9]{8,40}\$[\w+/=]{40,100}"
    ),
    Format(
        "private_key",  # `-----BEGIN ... PRIVATE KEY` in base64, as Kubernetes keeps it
        r"LS0tLS1CRUdJTi",
        r"(?:BSU0EgUFJJVkFUR|BQUklWQVRFI|BFQyBQUklWQVRFI|BPUEVOU1NIIFBSSVZBV|BFTkNSWVBURUQgUFJJV)"
        r"[A-Za-z0-9+/=]{40,20000}+",
    ),
)

FORMATTED = lazy_pattern(
    r"(?<![A-Za-z0-9])(?:"
    + "|".join(f"(?P<s{n}>(?:{key.begins}){key.rest})" for n, key in enumerate(FORMATS))
    + ")"
)
PLACES = lazy_pattern(r"(?<![A-Za-z0-9])[A-Za-z0-9$_~.]")
"""The places where a word begins, and with it a key may."""
BEGINS = lazy_pattern("|".join(key.begins for key in FORMATS))
"""The beginning of a word that makes it worth while to look for a key.

Without groups, and with the alternatives side by side: `re` is ten times as fast over such.
"""


def kind_of(match: re.Match[str]) -> str:
    """Return the kind of the key that `FORMATTED` matched."""
    return FORMATS[int((match.lastgroup or "s0")[1:])].kind
