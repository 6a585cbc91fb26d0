"""Formats of secrets and of personal data, with what stands for each in a text.

Values are put together here, at random and with right check digits, so that no scanner of this
repository takes them for real ones. A format that is *not* found has `found=False`; docs/privacy.md
says which these are.
"""

from __future__ import annotations

import base64
import random
import string
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
B62, HEX = string.ascii_letters + DIGITS, "0123456789abcdef"
B64 = B62 + "_-"
CODE = UPPER + DIGITS

_chosen = random.Random(20)


def some(length: int, alphabet: str = B62) -> str:
    """Return a random text in which a digit and a letter stand."""
    while True:
        text = "".join(_chosen.choice(alphabet) for _ in range(length))
        if any(map(str.isdigit, text)) or alphabet.isalpha():
            return text


def guid() -> str:
    """Return a random UUID."""
    return str(uuid.UUID(int=_chosen.getrandbits(128), version=4))


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    text: str
    """A text in which it stands."""
    value: str
    """What of the text must not stay."""
    found: bool = True


def _alone(name: str, value: str, *, found: bool = True) -> Format:
    return Format(name, f"Use {value} for this.", value, found)


def _in(name: str, text: str, value: str, *, found: bool = True) -> Format:
    return Format(name, text.format(value), value, found)


def _secrets() -> Iterator[Format]:  # noqa: PLR0915 - a table
    pem = "\n".join(some(64, B62) for _ in range(4))
    jwt = ".".join(
        (
            base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("="),
            base64.urlsafe_b64encode(b'{"sub":"1234567890"}').decode().rstrip("="),
            some(43, B64),
        )
    )
    # --- clouds
    yield _alone("AWS access key id", "AKIA" + some(16, UPPER + "234567"))
    yield _in("AWS secret access key", "aws_secret_access_key = {}", some(40))
    yield _in("AWS secret in the environment", "export AWS_SECRET_ACCESS_KEY={}", some(40))
    yield _in("AWS session token", "AWS_SESSION_TOKEN={}", some(200))
    yield _in(
        "AWS signed address", "https://b.s3.amazonaws.com/f?X-Amz-Signature={}", some(64, HEX)
    )
    yield _in("AWS security token", "https://b/f?X-Amz-Security-Token={}&x=1", some(120))
    yield _alone("Amazon Bedrock", "ABSK" + some(120))
    yield _alone("Google API key", "AIza" + some(35))
    yield _alone("Google OAuth secret", "GOCSPX-" + some(28))
    yield _alone("Google OAuth token", "ya29." + some(120))
    yield _alone("Google refresh token", "1//0" + some(80))
    yield _alone("Firebase messaging", "AAAA" + some(7) + ":" + some(140))
    yield _alone("Azure client secret", some(3) + "8Q~" + some(34))
    yield _in("Azure storage key", "AccountName=a;AccountKey={};x=y", some(86) + "==")
    yield _in(
        "Azure SAS", "https://a.blob.core.windows.net/c?sv=2024&sig={}&se=1", some(43) + "%3D"
    )
    yield _in("Azure service bus", "SharedAccessKeyName=Root;SharedAccessKey={}", some(43) + "=")
    yield _alone("Azure AI key", some(52) + "JQQJ99" + some(26))
    yield _alone("Azure DevOps", some(76) + "AZDO" + some(4))
    yield _alone("Alibaba Cloud id", "LTAI" + some(20))
    yield _in("Alibaba Cloud secret", "AccessKeySecret: {}", some(30))
    yield _alone("Tencent Cloud id", "AKID" + some(32))
    yield _in("Tencent Cloud secret", "SecretKey={}", some(32))
    yield _alone("Volcengine", "AKLT" + some(44))
    yield _alone("Baidu Cloud", f"bce-v3/ALTAK-{some(21)}/{some(40, HEX)}")
    yield _alone("DigitalOcean", "dop_v1_" + some(64, HEX))
    yield _alone("Heroku", "HRKU-" + some(60))
    yield _in("key in the environment", "export FAL_KEY={}", f"{guid()}:{some(32, HEX)}")
    for kind in ("fut_", "fat_", "fk_"):
        yield _alone(f"Cloudflare c{kind}", f"c{kind}{some(40)}{some(8, HEX)}")
    yield _alone("Cloudflare origin", f"v1.0-{some(24, HEX)}-{some(146, HEX)}")
    yield _in("Cloudflare token by its name", "CLOUDFLARE_API_TOKEN={}", some(40))
    yield _alone("Vault", "hvs." + some(90))
    yield _alone("Terraform Cloud", f"{some(14)}.atlasv1.{some(67)}")
    yield _alone("age", "AGE-SECRET-KEY-1" + some(58, CODE))
    # --- code
    yield _alone("GitHub", "ghp_" + some(36))
    yield _alone("GitHub, fine-grained", f"github_pat_{some(22)}_{some(59)}")
    yield _alone("GitLab", "glpat-" + some(20))
    yield _alone("GitLab runner", "GR1348941" + some(20))
    yield _alone("npm", "npm_" + some(36))
    yield _in("npm in .npmrc", "//registry.example.com/:_authToken={}", guid())
    yield _alone("PyPI", "pypi-AgEIcHlwaS5vcmc" + some(150))
    yield _alone("RubyGems", "rubygems_" + some(48, HEX))
    yield _alone("Docker Hub", "dckr_pat_" + some(27))
    yield _alone("Atlassian", "ATATT3" + some(186))
    yield _alone("Bitbucket", "ATBB" + some(32))
    yield _alone("Postman", f"PMAK-{some(24, HEX)}-{some(34, HEX)}")
    # --- models
    yield _alone("OpenAI", "sk-proj-" + some(74))
    yield _alone("OpenAI, old", "sk-" + some(48))
    yield _alone("Anthropic", "sk-ant-api03-" + some(95))
    yield _alone("Groq", "gsk_" + some(52))
    yield _alone("xAI", "xai-" + some(80))
    yield _alone("Hugging Face", "hf_" + some(34))
    yield _alone("Replicate", "r8_" + some(37))
    yield _alone("Perplexity", "pplx-" + some(48))
    yield _alone("NVIDIA", "nvapi-" + some(64))
    yield _alone("Together", "tgp_v1_" + some(43))
    yield _alone("Fireworks", "fw_" + some(24))
    yield _alone("Cerebras", "csk-" + some(48, LOWER + DIGITS))
    yield _alone("Voyage", "pa-" + some(43))
    yield _alone("Jina", "jina_" + some(60))
    yield _alone("ElevenLabs", "sk_" + some(48, HEX))
    yield _alone("Zhipu", f"{some(32, HEX)}.{some(16)}")
    yield _alone("LlamaCloud", "llx-" + some(48))
    yield _alone("LangSmith", f"lsv2_pt_{some(32, HEX)}_{some(10, HEX)}")
    yield _alone("Langfuse", f"sk-lf-{guid()}")
    yield _alone("Pinecone", f"pcsk_{some(6)}_{some(60)}")
    yield _alone("Tavily", "tvly-dev-" + some(32))
    yield _alone("Firecrawl", "fc-" + some(32, HEX))
    yield _alone("Databricks", "dapi" + some(32, HEX))
    yield _in("Cohere by its name", "COHERE_API_KEY={}", some(40))
    yield _in("Mistral by its name", 'mistral_api_key="{}"', some(32))
    # --- payment and shops
    yield _alone("Stripe", "sk_live_" + some(24))
    yield _alone("Stripe webhook", "whsec_" + some(32))
    yield _alone("Square", "sq0csp-" + some(43))
    yield _alone("Facebook", "EAA" + some(150))
    yield _alone("Shopify", "shpat_" + some(32, HEX))
    # --- offices
    yield _alone("Slack", f"xoxb-{some(12, DIGITS)}-{some(13, DIGITS)}-{some(24)}")
    yield _in("Slack webhook", "https://hooks.slack.com/services/{}", f"T00/B00/{some(24)}")
    bot = base64.b64encode(b"123456789012345678").decode()
    yield _alone("Discord", f"{bot}.{some(6)}.{some(38)}")
    yield _in("Discord webhook", "https://discord.com/api/webhooks/123456789012345678/{}", some(68))
    yield _alone("Notion", "ntn_" + some(46))
    yield _alone("Notion, old", "secret_" + some(43))
    yield _alone("Figma", "figd_" + some(40, B64))
    yield _alone("Linear", "lin_api_" + some(40))
    yield _alone("Airtable", f"pat{some(14)}.{some(64, HEX)}")
    yield _alone("HubSpot", f"pat-na1-{guid()}")
    yield _alone("SendGrid", f"SG.{some(22)}.{some(43)}")
    yield _alone("Twilio", "SK" + some(32, HEX))
    yield _alone("Mailgun", "key-" + some(32, HEX))
    yield _alone("Mailchimp", f"{some(32, HEX)}-us12")
    yield _alone("Brevo", f"xkeysib-{some(64, HEX)}-{some(16)}")
    yield _alone("Resend", f"re_{some(8)}_{some(24)}")
    yield _in("Telegram", "bot123456789:{}", "AA" + some(33))
    yield _in("Feishu robot", "https://open.feishu.cn/open-apis/bot/v2/hook/{}", guid())
    yield _in("WeCom robot", "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}", guid())
    yield _in(
        "DingTalk robot", "https://oapi.dingtalk.com/robot/send?access_token={}", some(64, HEX)
    )
    # --- data and meters
    yield _alone("Supabase", "sb_secret_" + some(31))
    yield _alone("Mapbox", f"sk.eyJ{some(60)}.{some(22)}")
    yield _alone("New Relic", "NRAK-" + some(27, CODE))
    yield _alone("Sentry", "sntryu_" + some(64, HEX))
    yield _in("Sentry DSN", "https://{}@o1.ingest.sentry.io/2", some(32, HEX))
    yield _alone("Dynatrace", f"dt0c01.{some(24, CODE)}.{some(64, CODE)}")
    yield _alone("Grafana", f"glsa_{some(32)}_{some(8, HEX)}")
    yield _alone("PostHog", "phx_" + some(43))
    # --- others whose formats their providers document
    yield _alone("Alibaba session", "STS.N" + some(24))
    yield _alone("Google HMAC", "GOOG1E" + some(55, CODE))
    yield _alone("Gemini", "AQ.Ab8RN6" + some(44, B64))
    yield _alone("Google service token", "ya29.c.b0A" + some(120))
    yield _alone("Vercel", "vcp_" + some(56))
    yield _alone("GitLab, trigger of a runner", "glrtr-" + some(20))
    yield _alone("DeepL", guid() + ":fx")
    yield _alone("Shopify, of a refresh", "shprt_" + some(32, HEX))
    yield _alone("Slack's cookie", f"xoxd-{some(40)}%2B{some(60)}")
    teams = f"{guid()}@{guid()}/IncomingWebhook/{some(32, HEX)}/{guid()}"
    yield _in("Teams webhook", "https://acme.webhook.office.com/webhookb2/{}", teams)
    yield _alone("MongoDB Atlas", "mdb_sa_sk_" + some(40, B64))
    yield _alone("Cursor, new", "crsr_" + some(64, HEX))
    yield _alone("Humanloop", "hl_sk_" + some(48, HEX))
    yield _alone("Salesforce", f"00D{some(12)}!{some(96)}")
    yield _alone("Discord, of a user", "mfa." + some(84))
    yield _in("Slack trigger", "https://hooks.slack.com/triggers/{}", f"T00/12345/{some(24)}")
    yield _in("htpasswd", "me:{}", f"$apr1${some(8)}${some(22)}")
    yield _in("npm, basic", "//registry.example.com/:_auth={}", some(24))
    yield _in("Docker login", '{{"auths": {{"r.io": {{"auth": "{}"}}}}}}', some(24))
    # --- by the name beside it
    yield _in("password in a .env file", "DB_PASSWORD={}", "correcthorse")
    yield _in(
        "password with letters alone", "POSTGRES_PASSWORD: {}", "Tr" + some(10, LOWER + UPPER)
    )
    yield _in("password of signs", "password={}", "!$%ab" + "cd&&")
    yield _in("password in YAML", "password: {}", "hunter" + "22")
    yield _in("password in JSON", '{{"password": "{}"}}', "correct" + "horse")
    yield _in("password in XML", "<password>{}</password>", "correct" + "horse")
    yield _in("token in an element", "<ApiKey>{}</ApiKey>", some(24))
    yield _in("attribute of XML", '<add key="DbPassword" value="{}"/>', "hunter" + "2222")
    yield _in("option of a command", "mysql --user root --password {} shop", "hunter" + "22")
    yield _in("option of curl", "curl -u admin:{} https://example.com", "hunter" + "22")
    yield _in(".pgpass", "db.example.com:5432:shop:app:{}", "hunter22", found=False)
    yield _in("SQL", "CREATE USER app IDENTIFIED BY '{}';", "hunter" + "22")
    yield _in("password in Chinese", "数据库密码：{}，请勿外传", "abcdef")
    yield _in("password in Chinese, of digits", "初始密码为{}。", "88" + "6699")
    yield _in("password with full-width signs", "密码＝{}", "hunter" + "22")
    yield _in("authorisation code in Chinese", "SMTP授权码：{}", some(16, LOWER))
    yield _in("password in prose", "The password is {}.", "hunter" + "22")
    yield _in("password of common words in prose", "the password is {}", "sunshine", found=False)
    yield _in("address with a password", "postgresql://app:{}@db:5432/shop", "s3cr3t")
    yield _in("address with a token", "https://{}@github.com/org/repo", "x" + some(30))
    yield _in("address with key=", "https://api.example.com/v1?key={}", some(24))
    yield _in("address with code=", "https://f.azurewebsites.net/api/f?code={}&x=1", some(54))
    yield _in("session cookie", "Cookie: theme=dark; sessionid={}; a=b", some(32))
    yield _in("set cookie", "Set-Cookie: connect.sid=s%3A{}; Path=/", some(60))
    yield _in("PHP session", "PHPSESSID={}", some(26, LOWER + DIGITS))
    yield _in("Java session", "GET /shop;JSESSIONID={} HTTP/1.1", some(32, CODE))
    yield _in("GitLab session", "_gitlab_session={}", some(32, HEX))
    yield _in("bearer", "Authorization: Bearer {}", some(40))
    yield _in("basic", "Authorization: Basic {}", base64.b64encode(b"me:hunter22").decode())
    yield _in("token scheme", "Authorization: Token {}", some(40, HEX))
    yield _in("scheme of its own", "Authorization: GenieKey {}", guid())
    yield _in("header with a key", "x-api-key: {}", some(40))
    yield _in("secret of a webhook", "SIGNING_SECRET={}", some(32, HEX))
    yield _in("private key of a wallet", "PRIVATE_KEY=0x{}", some(64, HEX))
    yield _in("Django", "SECRET_KEY = '{}'", some(50, B62 + "!@#$%^&*"))
    yield _in("one-time code", "Your verification code is {}.", some(6, DIGITS), found=False)
    yield _alone("JWT", jwt)
    yield _alone("bcrypt", "$2b$12$" + some(53, B62 + "./"))
    yield _alone("argon2", f"$argon2id$v=19$m=65536,t=3,p=4${some(22)}${some(43)}")
    yield _in("shadow", "root:{}:19000:0:99999:7:::", f"$6${some(12)}${some(86, B62)}")
    for kind in ("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        yield Format(kind, f"-----BEGIN {kind}-----\n{pem}\n-----END {kind}-----", pem[:64])
    yield _in(
        "private key in base64", "client-key-data: {}", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS" + some(400)
    )
    yield _in("secret without shape or name", "It is {} here.", some(32), found=False)
    yield _in("recovery words", "seed: {}", "legal winner thank year wave sausage", found=False)
    yield _in(
        "key in base64 of base64",
        "It is {}.",
        base64.b64encode(f"ghp_{some(36)}".encode()).decode(),
        found=False,
    )


SECRETS = [*_secrets()]


def luhn(digits: str) -> str:
    """Return the digits with the check digit of bank cards behind them."""
    doubled = [int(digit) for digit in reversed(digits)]
    total = sum(sum(divmod(2 * d, 10)) for d in doubled[::2]) + sum(doubled[1::2])
    return f"{digits}{-total % 10}"


def identity(region: str, born: str, order: str) -> str:
    """Return a Chinese identity number. Source: GB 11643-1999, section 4.2."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    digits = f"{region}{born}{order}"
    return (
        digits + "10X98765432"[sum(int(d) * w for d, w in zip(digits, weights, strict=True)) % 11]
    )


def wide(text: str) -> str:
    """Return the text in full width."""
    return "".join(chr(ord(sign) + 0xFEE0) for sign in text)


def _personal() -> Iterator[Format]:  # noqa: PLR0915 - a table
    card = luhn("411111" + "222233334"[:9])
    union = luhn("622848" + "001234567890")
    person = identity("110105", "19491231", "002")
    spaced = " ".join(card[n : n + 4] for n in range(0, 16, 4))
    yield _in("e-mail", "Write to {} today.", "jane.doe@example.co.uk")
    yield _in("e-mail with a tag", "{}", "jane+news@example.org")
    yield _in("e-mail in Chinese", "邮箱{}，谢谢", "zhang.san@example.com")
    yield _in("e-mail with a full-width sign", "邮箱：{}", "zhangsan＠example.com")
    yield _in("e-mail in words", "Write to {} dot com.", "jane at example", found=False)
    yield _in("American telephone", "Call {}.", "(212) 555-0142")
    yield _in("American telephone with dots", "Call {}.", "212.555.0142")
    yield _in("British telephone", "Call {}.", "+44 20 7946 0958")
    yield _in("German telephone", "Call {}.", "+49 30 901820")
    yield _in("German telephone at home", "Ruf {} an.", "030 901820", found=False)
    yield _in("French telephone", "Call {}.", "+33 1 42 68 53 00")
    yield _in("Chinese mobile", "手机号{}。", "13812345678")
    yield _in("Chinese mobile, grouped", "手机：{}", "138-1234-5678")
    yield _in("Chinese mobile, country", "电话{}。", "+86 138 1234 5678")
    yield _in("Chinese mobile, full width", "手机：{}", wide("13812345678"))
    yield _in("Chinese landline", "电话：{}", "010-62345678")
    yield _in("card", "Card {}.", card)
    yield _in("card, spaced", "Card {}.", spaced)
    yield _in("card, hyphens", "Card {}.", spaced.replace(" ", "-"))
    yield _in("card in Chinese", "卡号{}。", card)
    yield _in("card, full width", "卡号：{}", wide(card))
    yield _in("American Express", "Card {}.", luhn("37828224631000"))
    yield _in("Mastercard of the second series", "Card {}.", luhn("222300004841001"))
    yield _in("UnionPay, 16 digits", "卡号{}。", luhn("622588131234567"))
    yield _in("UnionPay, 19 digits", "卡号：{}，开户行", union)
    yield _in("UnionPay, spaced", "{}", " ".join(union[n : n + 4] for n in range(0, 19, 4)))
    yield _in("UnionPay, full width", "卡号：{}", wide(union))
    yield _in("IBAN", "IBAN {}", "DE89370400440532013000")
    yield _in("IBAN, spaced", "IBAN {}", "GB82 WEST 1234 5698 7654 32")
    yield _in("American account", "account {}, routing 021000021", "000123456789", found=False)
    yield _in("SSN", "SSN {}", "536-90-4399")
    yield _in("ITIN", "ITIN {}", "912-70-1234")
    yield _in("Chinese identity number", "身份证{}。", person)
    yield _in("Chinese identity number, small x", "身份证{}。", person.lower())
    yield _in(
        "Chinese identity number, spaced", "身份证 {}", f"{person[:6]} {person[6:14]} {person[14:]}"
    )
    yield _in(
        "Chinese identity number, hyphens", "{}", f"{person[:6]}-{person[6:14]}-{person[14:]}"
    )
    yield _in("Chinese identity number, full width", "身份证：{}", wide(person))
    yield _in("Chinese identity number, 15 digits", "身份证：{}", "110105491231002")
    yield _in("Hong Kong identity", "HKID {}", "A123456(3)")
    yield _in("Taiwanese identity", "身分證 {}", "A123456789")
    yield _in("Singaporean identity", "NRIC {}", "S1234567D")
    yield _in("Korean identity", "RRN {}", "900101-1234568")
    yield _in("British insurance", "NINO {}", "AB 12 34 56 C")
    yield _in("Spanish identity", "DNI {}", "12345678Z")
    yield _in("Spanish, of foreigners", "NIE {}", "X1234567L")
    yield _in("Italian tax", "CF {}", "RSSMRA85T10A562S")
    yield _in("French insurance", "NIR {}", "2 69 05 49 588 157 80")
    yield _in("Brazilian tax", "CPF {}", "529.982.247-25")
    yield _in("Indian tax", "PAN {}", "ABCPE1234F")
    yield _in("Polish identity", "PESEL {}", "44051401359")
    yield _in("Finnish identity", "HETU {}", "131052-308T")
    yield _in("Swedish identity", "{}", "811218-9876")
    yield _in("Canadian insurance, by its name", "SIN: {}", "046 454 286")
    yield _in("Australian tax, by its name", "TFN {}", "123 456 782")
    yield _in("passport, by its name", "Passport no. {}", "C01234567")
    yield _in("Chinese passport, by its name", "护照号码：{}", "E12345678")
    yield _in("passport alone", "It is {}.", "C01234567", found=False)
    yield _in("licence, by its name", "Driver's license: {}", "D1234-56789")
    yield _in("licence plate", "车牌京{}", "A12345", found=False)
    yield _in("date of birth", "born on {}", "12 May 1981", found=False)
    yield _in("home address", "lives at {}", "12 Rose Lane", found=False)
    yield _in("WeChat name", "微信号：{}", "zhangsan_88", found=False)


PERSONAL = [*_personal()]
