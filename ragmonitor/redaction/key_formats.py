"""Formats of the keys and tokens that providers give out, which are known by how they begin.

Each follows what its provider's documentation says of the prefix and the alphabet. Where a length
is documented the pattern allows for some more, since providers lengthen their keys.
"""

from __future__ import annotations

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
    before: int = 0
    """So many characters of the key stand before `begins`..."""
    lead: str = ""
    """... and look like this."""


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
    Format("azure_key", r"Q~", r"[A-Za-z0-9_~.-]{31,34}", 4, r"[A-Za-z0-9_~.]{3}[0-9]"),
    Format("azure_key", r"JQQJ99", r"[A-Za-z0-9]{20,40}", 52, r"[A-Za-z0-9]{52}"),
    Format("azure_key", r"AZDO", rf"[A-Za-z0-9]{{4}}{_END}", 76, r"[A-Za-z0-9]{76}"),
    *_api_keys(
        (r"LTAI", rf"[A-Za-z0-9]{{16,24}}{_END}"),  # Alibaba Cloud
        (r"STS\.N", r"[A-Za-z0-9]{20,40}"),
        (r"AKID", rf"[A-Za-z0-9]{{32}}{_END}"),  # Tencent Cloud
        (r"AKLT", r"[A-Za-z0-9_-]{36,60}"),  # Volcengine
        (r"ALTAK", r"[A-Za-z0-9-]{18,40}(?:/[0-9a-f]{32,64})?"),  # Baidu
        (r"AQVN", r"[A-Za-z0-9_-]{35,40}"),  # Yandex
        (r"y[0-3]_", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{50,120}}"),
        (r"YC", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{38}}{_END}"),
        (r"t1\.", r"[A-Za-z0-9_-]{1,100}={0,2}\.[A-Za-z0-9_-]{86}"),
        (r"do[opr]_v1_", r"[0-9a-f]{64}"),  # DigitalOcean
        (r"HRKU-", r"[A-Za-z0-9_-]{30,80}"),  # Heroku
        (r"nf[bcopu]_", r"[A-Za-z0-9]{36,60}"),  # Netlify
        (r"vc[aikpr]_", rf"{_HAS_DIGIT}[A-Za-z0-9]{{24,80}}{_END}"),  # Vercel
        (r"vercel_blob_rw_", r"[A-Za-z0-9_]{20,100}"),
        (r"fo1_", r"[A-Za-z0-9_-]{40,60}"),  # Fly.io
        (r"fm[12][ar]?_", r"[A-Za-z0-9+/]{100,2000}={0,3}"),
        (r"rnd_", r"[A-Za-z0-9]{28,60}"),  # Render
        (r"v1\.0-", r"[0-9a-f]{24}-[0-9a-f]{100,200}"),  # Cloudflare
        (r"cf(?:ut|at|k)_", r"[A-Za-z0-9]{40,60}"),
        (r"hv[sbr]\.", r"[A-Za-z0-9_-]{20,255}"),  # Vault
        (r"s\.", rf"{_HAS_DIGIT}[A-Za-z0-9]{{24}}{_END}"),  # Vault, old
        (r"amzn\.mws\.", _UUID),
        (r"amzn1\.oa2-cs\.v1\.", r"[0-9a-f]{64}"),
        (r"pul-", rf"[0-9a-f]{{40}}{_END}"),  # Pulumi
        (r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9_.-]{40,100}"),  # Doppler
        (r"tskey-", r"[a-z]{3,9}-[A-Za-z0-9-]{20,100}"),  # Tailscale
        (r"ops_eyJ", r"[A-Za-z0-9_-]{100,4000}"),  # 1Password
        (r"A3-", rf"[A-Z0-9]{{6}}-(?:[A-Z0-9]{{5,11}}-){{3,4}}[A-Z0-9]{{5}}{_END}"),
        (r"AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
        (r"st\.", r"[A-Za-z0-9-]{24,36}\.[0-9a-f]{32}\.[0-9a-f]{32}"),  # Infisical
        (r"(?:sc|ext|scauth|authress)_", r"[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[\w.+/=-]{40,160}"),
        (r"sha256~", r"[A-Za-z0-9_-]{43}"),  # OpenShift
        (r"tk-us-", r"[A-Za-z0-9_-]{48}"),  # Scalingo
        (r"ico-", rf"{_HAS_DIGIT}[A-Za-z0-9]{{32}}{_END}"),  # Infracost
        (r"dnkey-", r"[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}"),
    ),
    Format(
        "api_key", r"\.atlasv1\.", r"[A-Za-z0-9_=-]{60,80}", 14, r"[A-Za-z0-9]{14}"
    ),  # Terraform
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
        (r"cio", rf"(?=[A-Za-z0-9]{{0,31}}?[0-9])[A-Za-z0-9]{{32}}{_END}"),  # crates.io
        (r"oy2", rf"[a-z0-9]{{43}}{_END}"),  # NuGet
        (r"CLOJARS_", r"[0-9a-z]{60}"),
        (r"dckr_(?:pat|oat)_", r"[A-Za-z0-9_-]{27,60}"),
        (r"AKCp", r"[A-Za-z0-9]{66,80}"),  # Artifactory
        (r"cmVmd", r"[A-Za-z0-9]{59}"),
        (r"ATATT3|ATCTT3", r"[A-Za-z0-9_=-]{50,255}"),  # Atlassian
        (r"ATBB", rf"[A-Za-z0-9]{{32}}{_END}"),  # Bitbucket
        (r"BBDC-", r"[A-Za-z0-9+/]{40,50}"),
        (r"ATTA", r"[0-9a-zA-Z]{64,80}"),  # Trello
        (r"CCIP(?:AT|RJ)_", r"[A-Za-z0-9]{22}_[0-9a-f]{40}"),  # CircleCI
        (r"bk(?:ua|aj|ct)_", r"[0-9a-zA-Z]{40}"),  # Buildkite
        (r"sq[pua]_", r"[0-9a-f]{40}"),  # SonarQube
        (r"sgp_", r"[A-Za-z0-9_]{40,80}"),  # Sourcegraph, Segment
        (r"PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),  # Postman
        (r"(?:api|sdk|mob|ms)-", _UUID),  # LaunchDarkly, ModelScope
        (r"[ps]at\.", r"[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),  # Harness
        (r"API-", rf"{_HAS_DIGIT}[A-Z0-9]{{26}}{_END}"),  # Octopus Deploy
        (r"snyk_[us]at\.", r"[A-Za-z0-9_-]{8}\.[A-Za-z0-9_-]{30,200}"),
        (r"perm[:-]", r"[A-Za-z0-9_=-]{8,100}\.[A-Za-z0-9_=-]{2,100}\.[A-Za-z0-9_=-]{20,100}"),
        (r"key_", rf"[0-9a-f]{{64}}{_END}"),  # Cursor
        (r"crsr_", r"[0-9a-f]{64}"),
        (r"tr_(?:dev|stg|prod)_", r"[A-Za-z0-9]{20,40}"),  # Trigger.dev
        (r"signkey-", r"[a-z]{4,10}-[0-9a-f]{32,64}"),  # Inngest
        (r"apify_api_", r"[A-Za-z0-9]{36}"),
        (r"pn[ub]_", rf"[A-Za-z0-9]{{36}}{_END}"),  # Prefect
        (r"dbt[uc]_", r"[A-Za-z0-9_=-]{30,80}"),
    ),
    # --- models
    Format(
        "api_key",  # of OpenAI, Anthropic, OpenRouter, DeepSeek, Qwen, Moonshot, Langfuse
        r"sk-",
        rf"{_HAS_DIGIT}(?=[A-Za-z0-9_-]{{0,200}}?[A-Za-z0-9]{{10}})[A-Za-z0-9_-]{{20,255}}",
    ),
    *_api_keys(
        (r"sk-helicone-", r"(?:[a-z0-9]{7}-){3}[a-z0-9]{7}"),
        (r"sk_car_", r"[A-Za-z0-9]{20,40}"),  # Cartesia
        (r"ak-", rf"{_UUID}-[A-Za-z0-9_-]{{20,60}}"),  # Arize
        (r"ak_", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{20}}{_END}"),  # Composio
        (r"gsk_", r"[A-Za-z0-9]{20,100}"),  # Groq
        (r"sess-", r"[A-Za-z0-9]{40,60}"),  # OpenAI, of a session
        (r"flp_", r"[A-Za-z0-9]{40,60}"),  # Friendli
        (r"nk-", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{43}}{_END}"),  # Nomic
        (r"(?:mxb|emb)_", rf"{_HAS_DIGIT}[A-Za-z0-9]{{30,60}}{_END}"),  # Mixedbread
        (r"BSA", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{28}}{_END}"),  # Brave
        (r"ls__", r"[0-9a-f]{32}"),  # LangSmith, old
        (r"hl_sk_", r"[0-9a-f]{40,60}"),  # Humanloop
        (r"pl_", rf"[0-9a-f]{{32}}{_END}"),  # PromptLayer
        (r"xai-", r"[A-Za-z0-9]{20,100}"),
        (r"hf_", r"[A-Za-z0-9]{30,60}"),
        (r"api_org_", r"[A-Za-z0-9]{30,60}"),
        (r"r8_", r"[A-Za-z0-9]{30,60}"),  # Replicate
        (r"pplx-", r"[A-Za-z0-9]{30,80}"),
        (r"nvapi-", r"[A-Za-z0-9_-]{40,100}"),
        (r"tgp_v1_", r"[A-Za-z0-9_-]{40,60}"),  # Together
        (r"fw_", rf"(?=[A-Za-z0-9]{{0,23}}?[0-9])[A-Za-z0-9]{{22,30}}{_END}"),  # Fireworks
        (r"esecret_", r"[A-Za-z0-9]{20,60}"),  # Anyscale
        (r"csk-", r"[A-Za-z0-9]{40,60}"),  # Cerebras
        (r"pa-", rf"{_HAS_DIGIT}[A-Za-z0-9_-]{{43}}{_END}"),  # Voyage
        (r"jina_", r"[A-Za-z0-9_-]{40,80}"),
        (r"fc-", rf"[0-9a-f]{{32}}{_END}"),  # Firecrawl
        (r"e2b_", r"[0-9a-f]{40}"),
        (r"rpa_", r"[A-Z0-9]{30,60}[A-Za-z0-9]{0,10}"),  # RunPod
        (r"wandb_v1_", r"[A-Za-z0-9_]{40,120}"),
        (r"llx-", r"[A-Za-z0-9]{40,60}"),  # LlamaCloud
        (r"lsv2_(?:pt|sk)_", r"[0-9a-f]{32}_[0-9a-f]{10}"),  # LangSmith
        (r"pcsk_", r"[A-Za-z0-9_]{30,100}"),  # Pinecone
        (r"tvly-", r"(?:dev-|prod-)?[A-Za-z0-9]{20,60}"),
        (r"m0-", rf"(?=[A-Za-z0-9]{{0,39}}?[0-9])[A-Za-z0-9]{{40}}{_END}"),  # Mem0
        (r"a[ks]-", rf"{_HAS_DIGIT}[A-Za-z0-9]{{22}}{_END}"),  # Modal
        (r"dapi", r"[0-9a-f]{32}(?:-[0-9])?"),  # Databricks
    ),
    Format("api_key", r"\.", rf"[A-Za-z0-9]{{16}}{_END}", 32, r"[0-9a-f]{32}"),  # Zhipu
    Format("api_key", r":fx", _END, 36, _UUID),  # DeepL
    # --- payment and shops
    Format("stripe_key", r"[rs]k_(?:live|test|prod|sbox)_", r"[A-Za-z0-9]{16,255}"),
    Format("stripe_key", r"whsec_", r"[A-Za-z0-9+/=]{24,100}"),
    *_api_keys(
        (r"sk_", rf"[0-9a-f]{{48}}{_END}"),  # ElevenLabs
        (r"sq0(?:atp|csp|idp)-", r"[A-Za-z0-9_-]{22,60}"),  # Square
        (r"EAA", r"(?=[A-Za-z0-9_-]{0,79}?[0-9])[A-Za-z0-9_-]{60,300}"),  # Facebook, Square
        (r"access_token\$", r"[a-z]{7,10}\$[0-9a-z]{16}\$[0-9a-f]{32}"),  # Braintree
        (r"rzp_(?:live|test)_", r"[A-Za-z0-9]{14,30}"),  # Razorpay
        (r"FLWSECK(?:_TEST)?-", r"[0-9a-zA-Z]{12,40}(?:-X)?"),  # Flutterwave
        (r"access-(?:sandbox|development|production)-", _UUID),  # Plaid
        (r"(?:live|test)_", rf"(?=[A-Za-z0-9]{{0,39}}?[0-9])[A-Za-z0-9]{{30,60}}{_END}"),  # Mollie
        (r"EZ[AT]K", r"[A-Za-z0-9]{54}"),  # EasyPost
        (r"AQE", rf"{_HAS_DIGIT}[A-Za-z0-9+/=-]{{60,300}}"),  # Adyen
        (r"A21AA", r"[A-Za-z0-9_-]{80,120}"),  # PayPal
        (r"secret-(?:test|live)-", r"[A-Za-z0-9_=-]{30,60}"),  # Stytch
        (r"shippo_(?:live|test)_", r"[0-9a-f]{40}"),
        (r"duffel_(?:live|test)_", r"[A-Za-z0-9_-]{40,60}"),
        (r"pdl_(?:live|sdbx)_apikey_", r"[A-Za-z0-9_]{50,60}"),  # Paddle
        (r"polar_(?:oat|pat)_", r"[A-Za-z0-9]{30,60}"),
        (r"sm_[aps]at_", rf"[A-Za-z0-9]{{16}}{_END}"),  # SettleMint
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
        (r"IG(?:QV|AA)", r"[A-Za-z0-9_-]{100,300}"),  # Instagram
        (r"secret_", rf"(?=[A-Za-z0-9]{{0,42}}?[0-9])[A-Za-z0-9]{{43}}{_END}"),
        (r"fig[dour]h?_", r"[A-Za-z0-9_-]{36,80}"),  # Figma
        (r"lin_(?:api|oauth)_", r"[A-Za-z0-9]{32,80}"),  # Linear
        (r"pat", rf"[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}"),  # Airtable
        (r"[0-2]/", r"[0-9]{16}(?:/[0-9]{16})?:[0-9a-f]{32}"),  # Asana
        (r"pk_", rf"[0-9]{{7,9}}_[A-Z0-9]{{32}}{_END}"),  # ClickUp
        (r"pat-(?:na|eu|ap)[0-9]-", _UUID),  # HubSpot
        (r"tfp_", r"[A-Za-z0-9_-]{40,70}"),  # Typeform
        (r"CFPAT-", r"[A-Za-z0-9_-]{43,60}"),  # Contentful
        (r"rdme_", r"[a-z0-9]{70}"),
        (r"SG\.", r"[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,80}"),  # SendGrid
        (r"SK", rf"[0-9a-f]{{32}}{_END}"),  # Twilio
        (r"key-", rf"[0-9a-f]{{32}}{_END}"),  # Mailgun
        (r"x(?:keysib|smtpsib)-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),  # Brevo
        (r"mlsn\.", r"[0-9a-f]{64}"),  # MailerSend
        (r"re_", rf"[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}{_END}"),  # Resend
        (r"dG9r", r"[A-Za-z0-9+/]{50,100}={0,2}"),  # Intercom
        (r"open\.(?:feishu\.cn|larksuite\.com)/", rf"open-apis/bot/v2/hook/{_UUID}"),
        (r"(?:outlook|webhook)\.office\.com/webhook", rf"(?:b2)?/{_UUID}[A-Za-z0-9@/-]{{0,200}}"),
        (r"A{22}", r"[A-Za-z0-9%]{80,100}"),  # X
        (r"WPL_AP[01]\.", r"[A-Za-z0-9]{16}\.[A-Za-z0-9]{6,20}={0,2}"),  # LinkedIn
        (r"oauth:", rf"{_HAS_DIGIT}[a-z0-9]{{30}}{_END}"),  # Twitch
        (r"fio-u-", r"[A-Za-z0-9_=-]{64}"),  # Frame.io
        (r"s-s4t2(?:ud|af)-", r"[0-9a-f]{64}"),  # 42
    ),
    Format("api_key", r"-us", rf"[0-9]{{1,2}}{_END}", 32, r"[0-9a-f]{32}"),  # Mailchimp
    Format("api_key", r"-[0-9a-f]{8}-", rf"[0-9a-f]{{8}}{_END}", 32, r"[0-9a-f]{32}"),  # Mailgun
    # Telegram's number is public, and stays.
    Format("api_key", r"AA", r"[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])", 0, r"(?<=[0-9]:)"),
    # --- data, maps, meters
    *_api_keys(
        (r"sb_secret_", r"[A-Za-z0-9_-]{20,60}"),  # Supabase
        (r"sbp_", r"(?:oauth_)?[0-9a-f]{40}"),
        (r"pscale_(?:tkn|pw|oauth)_", r"[A-Za-z0-9_.=-]{32,64}"),  # PlanetScale
        (r"napi_", r"[a-z0-9]{40,80}"),  # Neon
        (r"xau_", r"[A-Za-z0-9]{30,60}"),  # Xata
        (r"mdb_sa_sk_", r"[A-Za-z0-9_-]{40}"),  # MongoDB Atlas
        (r"4b1d", rf"{_HAS_DIGIT}[A-Za-z0-9]{{38}}{_END}"),  # ClickHouse
        (r"CCDB1_", r"[A-Za-z0-9_]{40,100}"),  # CockroachDB
        (r"hcaik_", r"[a-z0-9]{50,70}"),  # Honeycomb
        (r"sl\.(?:u\.)?", rf"{_HAS_DIGIT}[A-Za-z0-9_.-]{{100,400}}"),  # Dropbox
        (r"[ps]k\.eyJ", r"[A-Za-z0-9_-]{20,200}\.[A-Za-z0-9_-]{20,60}"),  # Mapbox
        (r"NR(?:AK|II|JS|AA|IQ|IV)-", r"[A-Za-z0-9_-]{19,40}"),  # New Relic
        (r"sntry[su]_", r"[A-Za-z0-9_=+/]{40,400}"),  # Sentry
        (r"dt0[a-z][0-9]{2}\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),  # Dynatrace
        (r"gl(?:sa|c)_", r"[A-Za-z0-9_=+/]{24,255}"),  # Grafana
        (r"eyJrIjoi", r"[A-Za-z0-9+/_-]{40,400}={0,2}"),
        (r"ph[xs]_", r"[A-Za-z0-9]{40,60}"),  # PostHog
        (r"rootly_", r"[0-9a-f]{64}"),
        (r"p8e-", rf"[a-z0-9]{{32}}{_END}"),  # Adobe
    ),
    Format("api_key", r"NRAL", _END, 36, r"[0-9a-f]{36}"),
    Format("api_key", r"_mmk", _END, 36, r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}"),  # MaxMind
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
    + "|".join(f"({key.lead}(?:{key.begins}){key.rest})" for key in FORMATS)
    + ")"
)
"""A whole key; its group says by its number which of them."""
PLACES = lazy_pattern(r"(?<![A-Za-z0-9])[A-Za-z0-9$_~.]")
"""The places where a word begins, and with it a key may."""
BEGINS = lazy_pattern(
    "|".join(f".{{{key.before}}}{key.begins}" if key.before else key.begins for key in FORMATS)
)
"""The beginning of a word that makes it worth while to look for a key.

Without groups, and with the alternatives side by side: `re` is ten times as fast over such.
"""
