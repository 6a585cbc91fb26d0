"""The settings in groups: constructor, else `RAGMONITOR_*` variable, else `ragmonitor.toml`.

This module is the only reader of the variables and of the file, and the only list of the options:
Monitor's keywords, docs/settings.md and `ragmonitor doctor` follow from its models.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from ragmonitor.errors import SettingsError, nearest
from ragmonitor.guard import logger
from ragmonitor.redis_client import is_redis

PREFIX = "RAGMONITOR_"
FILE = "ragmonitor.toml"
TABLE = "ragmonitor"
"""The table of the file that holds the options."""
_OF_KUBERNETES = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP)(_\w+)?)$")
_SIMILAR = 0.75
"""A misspelt name is at least so similar to the right one, from 0 to 1 as `difflib` measures."""

_UNITS: Final = {
    "_s": "seconds",
    "_hours": "hours",
    "_days": "days",
    "_bytes": "bytes",
    "rate": "share",
    "_share": "share",
    "port": "port",
}
"""The units by the end of an option's name."""

OptionPath = tuple[str, ...]
"""The place of an option: `("service",)` or `("judge", "timeout_s")`."""


def option(default: Any, description: str, *, change: str, unit: str = "", **limits: Any) -> Any:
    """Return the field of one option.

    Args:
        default: Its value where nobody gives one.
        description: What it is, for people; states what None or 0 means.
        change: When to change it, for people.
        unit: Of a number whose name does not end with it.
        limits: Of its values, as pydantic's `Field` takes them.
    """
    key = "default_factory" if callable(default) else "default"
    arguments: dict[str, Any] = {key: default, **limits}
    return Field(
        description=description, json_schema_extra={"change": change, "unit": unit}, **arguments
    )


def _at_commas(value: Any) -> Any:
    if isinstance(value, str):
        value = tuple(name.strip() for name in value.split(",") if name.strip())
    # A variable cannot be set to nothing.
    return () if isinstance(value, tuple | list) and list(value) == ["none"] else value


Names = Annotated[tuple[str, ...], BeforeValidator(_at_commas)]
"""Names; in a variable separated by commas, `none` for no name."""


def _place(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if is_redis(value) or value.startswith("redis+sentinel://"):
        return SecretStr(value)
    if "://" in value:
        raise ValueError("is a file or a folder, or the address of a server, 'redis://host:6379/0'")
    return _at_home(value)


def _at_home(value: Any) -> Any:
    """Return a path whose leading `~` is the home folder: no shell has replaced it in a file."""
    if not isinstance(value, str):
        return value
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value}: there is no such home folder") from error


FilePath = Annotated[Path | None, BeforeValidator(_at_home)]
"""A file; `~` is the home folder."""


StatePlace = Annotated[Path | SecretStr | None, BeforeValidator(_place)]
"""A file or a folder, or the address of a Redis server."""
Parts = Annotated[tuple[Any, ...], BeforeValidator(_at_commas)]
"""Names or objects; likewise."""


class Group(BaseModel):
    """Options that belong together, frozen; every option has a default."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        defer_build=True,  # for a monitor, not for an import
    )
    place: ClassVar[str] = ""
    """The name of the group among the options of `Monitor`; empty: it is the top."""
    short: ClassVar[str] = ""
    """The option that a plain value in the place of the group sets; empty: there is none."""

    def __init__(self, /, **values: Any) -> None:
        """Check the options.

        Raises:
            SettingsError: An option is unknown or out of range.
        """
        prefix = (self.place,) if self.place else ()
        _refuse_unknown({self.place: values} if self.place else values, _keyword)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(_readable(error, prefix)) from None

    @classmethod
    def values_of(cls, value: Any) -> dict[str, Any]:
        """Return the options that a value in the place of this group sets, by name.

        Args:
            value: A group, a mapping, or the short form.

        Raises:
            SettingsError: The group has no short form.
        """
        if isinstance(value, Group):
            if not isinstance(value, cls):
                raise SettingsError(f"{cls.place} takes {cls.__name__}, not {type(value).__name__}")
            return {name: getattr(value, name) for name in value.model_fields_set}
        if isinstance(value, Mapping):
            return dict(value)
        if not cls.short:
            raise SettingsError(f"{cls.place} takes {cls.__name__}(...), not {value!r}")
        return {cls.short: value}


class JudgeSettings(Group):
    """The judges: who scores a sample of the answers, and how."""

    place = "judge"
    short = "model"

    model: Any = option(
        None,
        "A litellm model name ('openai/gpt-4o-mini'), which needs a budget; 'encoder:MODEL', a "
        "classifier on this machine; or in Python any `Judge`. None: the built-in judge alone.",
        change="When scores of a language model are wanted beside the built-in judge's.",
    )
    api_base: str | None = option(
        None,
        "Address of an OpenAI-compatible server.",
        change="For models of your own, or behind a proxy.",
    )
    input_usd_per_million_tokens: float | None = option(
        None,
        "US dollars per million input tokens of `judge.model`. None: litellm's price.",
        unit="US dollars per million tokens",
        change="When litellm knows no price of the model and the budget is in dollars.",
        ge=0,
    )
    output_usd_per_million_tokens: float | None = option(
        None,
        "US dollars per million output tokens of `judge.model`. None: litellm's price.",
        unit="US dollars per million tokens",
        change="Together with the price of input tokens.",
        ge=0,
    )
    timeout_s: float = option(
        15.0,
        "Seconds that one call of the judge may take.",
        change="Raise it for slow models of your own; "
        '`ragmonitor_evaluations_total{outcome="judge_timeout"}` shows it.',
        gt=0,
        le=600,
    )
    reading_timeout_s: float | None = option(
        None,
        "Seconds that one answer may take, over all calls and pauses. None: twice timeout_s.",
        change="When long answers are spread over many calls.",
        gt=0,
        le=1200,
    )
    concurrency: int = option(
        8,
        "Answers that the judge scores at once.",
        unit="answers",
        change="Lower it for a provider's rate limit, raise it when answers wait.",
        ge=1,
        le=256,
    )
    max_pending: int = option(
        1_000,
        "Sampled answers that may wait for the judge; beyond, none is sampled.",
        unit="answers",
        change="Lower it where memory is short.",
        ge=1,
        le=100_000,
    )
    tokens_per_call: int = option(
        8_000,
        "Tokens of one prompt, estimated; longer evidence is spread over calls.",
        unit="tokens",
        change="Lower it for models with a small context.",
        ge=1_500,
    )
    max_calls: int = option(
        6,
        "Calls over which the evidence of one answer may be spread; more is `evidence_too_long`.",
        unit="calls",
        change="Raise it for very long contexts.",
        ge=1,
        le=50,
    )
    cache_size: int = option(
        1_000,
        "Verdicts kept in memory, for an hour, for exact duplicates; 0: none.",
        unit="verdicts",
        change="Raise it when the same questions come again and again.",
        ge=0,
    )
    fallbacks: Names = option(
        (),
        "Models that litellm asks in turn where the judge's provider fails, each under its own "
        "name; 'model@http://address/v1' for another server.",
        change="When scores must go on while a provider is down.",
    )
    reference_answers: FilePath = option(
        None,
        "Reference answers of your own: a JSON Lines file of question, contexts, answer and "
        "hallucinated (docs/statistics.md).",
        change="When people have checked some answers.",
    )
    reference_answers_per_day: int = option(
        20,
        "Reference answers that the judge scores again each day, to tell a changed judge from a "
        "changed application; 0: none. Processes without a common `state` have their own "
        "each, and so they do unless content is 'all'.",
        unit="answers per day",
        change="0 saves the calls; raise it to notice a changed judge sooner.",
        ge=0,
        le=1_000,
    )
    builtin: Any = option(
        None,
        "Who scores every answer. None: the rules of the built-in judge; 'encoder:MODEL', a "
        "classifier on this machine (answers that it does not score in time are scored by the "
        "rules); or in Python an object with identity and assess().",
        change="For better scores of every answer, where there is CPU for a model.",
    )
    builtin_timeout_s: float = option(
        10.0,
        "Seconds that it has for an answer; the rules score what is not through by then.",
        change="Raise it for large models: `ragmonitor_builtin_stand_ins_total` shows it.",
        gt=0,
        le=300,
    )

    @field_validator("model")
    @classmethod
    def _is_a_judge(cls, value: Any) -> Any:
        if value is None or isinstance(value, str) or hasattr(value, "assess"):
            return value or None
        raise ValueError("a judge is a model's name, or an object with identity and assess()")

    @field_validator("builtin")
    @classmethod
    def _reads_every_answer(cls, value: Any) -> Any:
        if value in (None, "", "builtin"):
            return None
        if (hasattr(value, "assess") and getattr(value, "budget_unit", None) is None) or (
            isinstance(value, str) and value.partition(":")[0] == "encoder" and value[8:]
        ):
            return value
        raise ValueError(
            "every answer is scored by 'encoder:MODEL', or an object with identity and assess()"
        )

    @property
    def name(self) -> str | None:
        """The name of the model; None: there is none, or it was given as an object."""
        return self.model if isinstance(self.model, str) else None

    @model_validator(mode="after")
    def _every_judge_is_another(self) -> Self:
        names = [name for name in (self.name, *self.fallbacks) if name]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(
                f"{', '.join(sorted(twice))} is named twice among judge.model and "
                "judge.fallbacks; their scores would be one series"
            )
        if self.fallbacks and (self.name is None or self.name.startswith("encoder:")):
            raise ValueError("fallbacks are litellm's: they need a judge.model that litellm asks")
        return self


BudgetUnit = Literal["usd", "tokens", "calls"]


class Budget(Group):
    """The limit of all judges together: in dollars, tokens or calls, per day, hour or both."""

    place = "budget"

    usd_per_day: float | None = option(
        None,
        "US dollars in 24 hours.",
        unit="US dollars per day",
        change="The usual budget of a provider's model.",
        gt=0,
    )
    usd_per_hour: float | None = option(
        None,
        "US dollars in an hour.",
        unit="US dollars per hour",
        change="To keep a burst of traffic from spending the day's budget.",
        gt=0,
    )
    tokens_per_day: int | None = option(
        None,
        "Tokens in 24 hours.",
        unit="tokens per day",
        change="For models without a price.",
        gt=0,
    )
    tokens_per_hour: int | None = option(
        None,
        "Tokens in an hour.",
        unit="tokens per hour",
        change="For models without a price.",
        gt=0,
    )
    calls_per_day: int | None = option(
        None,
        "Calls in 24 hours.",
        unit="calls per day",
        change="For judges that know neither a price nor tokens.",
        gt=0,
    )
    calls_per_hour: int | None = option(
        None,
        "Calls in an hour.",
        unit="calls per hour",
        change="For a provider's rate limit.",
        gt=0,
    )

    @classmethod
    def values_of(cls, value: Any) -> dict[str, Any]:
        """Return the limits of a group, a mapping, or a text: `usd_per_day=5,usd_per_hour=1`.

        Raises:
            SettingsError: A part of the text names no limit.
        """
        if not isinstance(value, str):
            return super().values_of(value)
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        for name, equals, _ in pairs:
            if not equals and name.strip() not in cls.model_fields:
                raise SettingsError(
                    f"budget: {name.strip()!r} does not say of what; give usd_per_day=5, or "
                    "tokens_per_day=..., calls_per_day=..., or each per_hour"
                )
        return {name.strip(): limit.strip() for name, _, limit in pairs}

    @property
    def unit(self) -> BudgetUnit:
        """The unit of the budget; `tokens` where there is none."""
        return next((unit for unit, pair in self._limits.items() if any(pair)), "tokens")

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The limits per day and per hour, in the budget's unit."""
        return self._limits[self.unit]

    @property
    def is_given(self) -> bool:
        """Whether there is any limit."""
        return any(self.limits)

    @property
    def _limits(self) -> dict[BudgetUnit, tuple[float | None, float | None]]:
        return {
            "usd": (self.usd_per_day, self.usd_per_hour),
            "tokens": (self.tokens_per_day, self.tokens_per_hour),
            "calls": (self.calls_per_day, self.calls_per_hour),
        }

    @model_validator(mode="after")
    def _one_unit(self) -> Self:
        if sum(any(pair) for pair in self._limits.values()) > 1:
            raise ValueError(
                "give one budget: usd_per_day, usd_per_hour or both; or tokens_per_day, "
                "tokens_per_hour or both; or calls_per_day, calls_per_hour or both"
            )
        return self


class SamplingSettings(Group):
    """The choice of the answers that the judge scores."""

    place = "sample"
    short = "rate"

    rate: float = option(
        0.1,
        "Share of the answers that the judge scores, budget permitting.",
        change="Raise it for narrower intervals and sooner alarms.",
        gt=0,
        le=1,
    )
    always: Names = option(
        ("ragmonitor:judge", "user_feedback"),
        "Tags, or names of attributes, of answers that are judged for certain, budget permitting.",
        change="For answers that people complained of, or of a new version.",
    )
    floor_by: str | None = option(
        None,
        "An attribute of interactions (route, tenant, ...) of which every value gets a least "
        "number of judged answers.",
        change="When rare parts of the traffic must be seen too.",
    )
    floor_per_hour: float = option(
        9.0,
        "Answers judged per hour, at least, for each value of floor_by; all together at most half "
        "of what the budget bears.",
        unit="answers per hour",
        change="Together with floor_by.",
        gt=0,
    )


class ContentSettings(Group):
    """Texts: what is replaced in them, and which may leave in traces and files."""

    place = "content"
    short = "policy"

    policy: Literal["all", "hashed", "none"] | None = option(
        None,
        "Whether questions, prompts, chunks and answers leave: as they are, as keyed hashes, or "
        "not at all. None: they go where these settings send something (files, pages, Phoenix, "
        "Langfuse), and stand in traces where OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT "
        "says so. Judges see them either way.",
        change="To 'all' for texts in traces; else when people see them who must not.",
    )
    hash_key: SecretStr | None = option(
        None,
        "Key of the hashes: with the same key in every process equal texts have equal hashes "
        "everywhere. None: random for each process.",
        change="To find equal texts over several processes.",
        min_length=16,
    )
    redaction: Parts = option(
        ("secrets",),
        "What is replaced in every text before judges and exporters see it: 'secrets' (keys, "
        "tokens, passwords), 'personal' (names, addresses and numbers of people), or in Python "
        "functions from a text to a text, which come last; 'none' for nothing.",
        change="Add 'personal' where texts hold names and addresses.",
    )
    personal_entities: Names = option(
        (
            "PERSON",
            "EMAIL_ADDRESS",
            "PHONE_NUMBER",
            "CREDIT_CARD",
            "IBAN_CODE",
            "US_SSN",
            "CN_ID_CARD",
            "NATIONAL_ID",
        ),
        # Not places, dates and organisations: without them few answers can be judged.
        "The kinds that 'personal' looks for.",
        change="To keep what your judges need, or to add what your country has.",
    )
    personal_models: Names = option(
        (),
        "spaCy pipelines that find names: installed packages, or folders, one for English and one "
        "for Chinese. Empty: the best that is installed for each.",
        change="For a model of your own, or a smaller one.",
    )

    @property
    def shown(self) -> Literal["all", "hashed", "none"]:
        """The policy for destinations that these settings name: everything but traces."""
        return self.policy or "all"

    @property
    def key(self) -> bytes | None:
        """`hash_key` as bytes."""
        return None if self.hash_key is None else self.hash_key.get_secret_value().encode()


class CaptureSettings(Group):
    """Capture: what counts as an interaction, and how much of it may be open at once."""

    place = "capture"

    root_names: Names = option(
        (),
        "Only runs of these names are interactions, wherever they are nested. A run tagged "
        "'ragmonitor:interaction' is one without.",
        change="When the right run is known by name.",
    )
    retrieval_tools: Names = option(
        ("*search*", "*retriev*", "*lookup*", "*knowledge*"),
        "Patterns of tool names: the text of such a tool counts as retrieved, where neither a "
        "retriever run nor documents are seen.",
        change="When an agent's tools are called otherwise.",
    )
    queue_size: int = option(
        10_000,
        "Finished interactions that may wait for the worker.",
        unit="interactions",
        change='Raise it for bursts; `ragmonitor_dropped_total{reason="queue_full"}` shows it.',
        ge=1,
    )
    max_open_runs: int = option(
        50_000,
        "Framework runs that may be open at once.",
        unit="runs",
        change="Lower it where memory is short.",
        ge=100,
    )
    open_run_age_s: float = option(
        900.0,
        "Seconds after which an open run is taken as abandoned.",
        change="Raise it for answers that take longer than a quarter of an hour.",
        gt=0,
    )
    paused_run_age_s: float = option(
        14_400.0,
        "Seconds after which a graph that waits for a person is taken as never resumed.",
        change="Raise it where people answer on the next day.",
        gt=0,
    )


def _at_spaces(value: Any) -> Any:
    return tuple(value.split()) if isinstance(value, str) else value


class AlarmSettings(Group):
    """Alarms: which signals may raise one, how often by mistake, and who is told."""

    place = "alarms"
    short = "signals"

    signals: Names = option(
        ("*",),
        "Signals that may raise an alarm, or patterns of their names; 'none' for nothing.",
        change="When a signal means nothing for your application.",
    )
    false_alarm_every_days: float = option(
        30.0,
        "Days between false alarms: while every objective is met, all alarms together are raised "
        "at most once in so many days, on average.",
        change="Raise it for fewer false alarms and longer delays.",
        gt=0,
        le=3_650,
    )
    slices: Names = option(
        ("*",),
        "Attributes of interactions of which each frequent value has an alarm on its hallucination "
        "rate, or patterns of their names; also 'language', 'model' and others of "
        "docs/causes.md, where they are named. 'none' for nothing.",
        change="To leave out attributes of which nobody would act on a value's alarm.",
    )
    slices_share: float = option(
        0.1,
        "Of the false alarms, the share that the alarms of slices have together; 0: slices have "
        "none.",
        change="Raise it where slices matter more than scores, which have less of it then.",
        ge=0,
        le=0.4,
    )
    slice_limits: Names = option(
        (),
        "Limits of slices: 'route=billing:0.12' accepts a hallucination rate of 12 % there. That "
        "of others is the objective, or is learned where they are worse from the beginning.",
        change="For a slice that is known to be worse and stays so.",
    )
    notify: Annotated[tuple[SecretStr, ...], BeforeValidator(_at_spaces)] = option(
        (),
        "Who is told of incidents: addresses of Slack, Feishu/Lark, DingTalk, WeCom, Teams, e-mail "
        "or any webhook, as the library apprise writes them ('slack://A/B/C'), in a text separated "
        "by spaces; told when an alarm is raised, its cause is named, it is still on, and it is "
        "cleared. Needs the extra `notify`.",
        change="For teams without Alertmanager.",
    )
    notify_still_on_hours: float = option(
        4.0,
        "Hours after which they are told again that an alarm is still on.",
        change="Raise it for fewer reminders.",
        gt=0,
        le=1_000,
    )
    notify_texts: bool = option(
        False,
        "Whether a notice quotes the worst sentence of an answer, if `content` is 'all'.",
        change="When everybody in the channel may read answers.",
    )
    notify_language: Literal["en", "zh"] = option(
        "en", "Language of the notices.", change="`zh` for Chinese."
    )


class EstimationSettings(Group):
    """The estimates beside the means of the whole traffic."""

    place = "estimation"

    group_by: Names = option(
        ("language", "model", "latency_s"),
        "Parts of the traffic that get a hallucination rate of their own: 'language', "
        "'model', 'latency_s' (bands of the time to the last token), or attributes of interactions "
        "(route, version, ...); 'none' for nothing.",
        change="To compare tenants, routes or versions.",
    )
    leave_out: Names = option(
        ("user*", "*email*", "*phone*"),
        "Names of attributes whose values are not looked at as slices of the traffic, and so are "
        "in no alarm and no report of a cause; patterns as of file names. 'none' for nothing.",
        change="Where an attribute is private, or means nothing to whoever is on call.",
    )
    compare_by: Names = option(
        ("service_version",),
        "What versions of the application are compared by, live: 'service_version', or attributes "
        "of interactions (prompt_version, model, ...), up to four; 'none' for nothing.",
        change="To compare prompts, models or arms of an experiment within one release.",
        max_length=4,
    )
    prices: Names = option(
        (),
        "What models of the application cost, in US dollars per million tokens: "
        "'my-model=0.5/1.5', input and output. Others have the price of litellm's table, where it "
        "is installed.",
        change="For models of your own, or prices of your own.",
    )
    min_severity: Literal["minor", "major"] = option(
        "major",
        "The least severity of a finding that makes an answer hallucinated: in the rate, its "
        "alarm, scores and traces. `minor` counts everything that a judge objects to.",
        change="`minor` where a stretched wording does harm too.",
    )
    drift_reference_size: int = option(
        2_000,
        "Retrievals that later ones are compared with.",
        unit="interactions",
        change="Lower it for little traffic.",
        ge=100,
        le=100_000,
    )
    human_labels: FilePath = option(
        None,
        "A CSV of people's verdicts (docs/statistics.md), which correct the judged rate.",
        change="When people have labelled answers with `ragmonitor labels`.",
    )


class StreamSettings(Group):
    """The stream on which records go to be scored by a worker elsewhere."""

    place = "stream"
    short = "url"

    url: SecretStr | None = option(
        None,
        "Where finished, redacted answers are put for `ragmonitor worker` to score: a Redis server "
        "('redis://host:6379/0', with TLS 'rediss://...'), or a worker of this machine that its "
        "processes share ('unix:/run/ragmonitor.sock'). None: as `worker` says.",
        change="When scoring must not share a machine or a process with serving (docs/scaling.md).",
    )
    buffer_size: int = option(
        10_000,
        "Answers that may wait in this process to be put on the stream.",
        unit="answers",
        change="Raise it for longer outages of the stream, lower it where memory is short.",
        ge=1,
    )
    max_records: int = option(
        1_000_000,
        "Records on the stream beyond which further ones are refused, cause `queue_full`.",
        unit="records",
        change="By the server's memory: about 3 kB for an ordinary record.",
        ge=1_000,
    )


class ReceiveSettings(Group):
    """The addresses at which `ragmonitor receive` takes spans, and its patience with a trace."""

    place = "receive"

    host: str = option(
        "127.0.0.1",
        "Address to listen on for spans; another than loopback only with receive.token.",
        change="When applications on other machines, or in other containers, send spans.",
    )
    http_port: int = option(
        4318,
        "Port for OTLP over HTTP; 0: any free one.",
        change="When the port is taken.",
        ge=0,
        le=65535,
    )
    kafka: SecretStr | None = option(
        None,
        "A topic that a Collector puts spans on, beside what comes over HTTP: "
        "kafka://broker:9092,broker:9092/otlp_spans. None: no topic is read.",
        change="When spans go over Kafka already.",
    )
    token: SecretStr | None = option(
        None,
        "What a sender must show: 'Authorization: Bearer ...', which "
        "OTEL_EXPORTER_OTLP_HEADERS sets. None: nothing.",
        change="When it listens on another address than loopback.",
        min_length=16,
    )
    quiet_s: float = option(
        6.0,
        "Seconds without a new span after which a trace of which nothing is missing is read.",
        change="Longer than your exporters' pause between batches, which is 5 s by default, where "
        "several processes share a trace; shorter where one process has all of it.",
        gt=0,
    )
    wait_s: float = option(
        120.0,
        "Seconds without a new span for which a trace waits for a root or a parent.",
        change="Raise it above the longest time that one model call takes.",
        gt=0,
    )
    max_traces: int = option(
        50_000,
        "Traces that may be open at once; beyond, senders are to try again later.",
        unit="traces",
        change="Lower it where memory is short.",
        ge=10,
    )
    max_held_bytes: int = option(
        256 * 2**20,
        "Memory that the spans of open traces may take; beyond, senders are to try again later.",
        change="By the memory of the machine.",
        ge=2**20,
    )
    max_request_bytes: int = option(
        20 * 2**20,
        "Bytes of one request, as it is sent and unpacked.",
        change="Raise it for senders of very large batches, which get 413.",
        ge=2**16,
        le=2**28,
    )


_ANY_HOST: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


class ServerSettings(Group):
    """The endpoint of /metrics, and the page beside it."""

    place = "server"
    short = "enabled"

    enabled: bool = option(
        True, "Serve /metrics.", change="When the application serves the registry itself."
    )
    host: str = option(
        "127.0.0.1", "Address to listen on.", change="0.0.0.0 in a container that is scraped."
    )
    port: int = option(
        # Not OpenTelemetry's (9464 is its own /metrics), nor in Prometheus' list of exporters
        # (9100 to 9999, all given away), nor registered with IANA.
        7247,
        "Port to listen on; 0: any free one.",
        change="When the port is taken.",
        ge=0,
        le=65535,
    )
    ui: bool = option(
        False,
        "Serve a page of the numbers, the alarms and the worst answers beside /metrics; on another "
        "address than loopback only with ui_token.",
        change="To look without Grafana.",
    )
    ui_token: SecretStr | None = option(
        None,
        "What a browser must show to see the page, once as /?token=... None: whoever is on this "
        "machine may see it.",
        change="When the page is served on another address than loopback.",
        min_length=16,
    )
    ui_trace_url: str | None = option(
        None,
        "Where the page links an answer's trace to ('http://localhost:16686/trace/{trace_id}').",
        change="When traces can be seen somewhere.",
    )

    ui_url: str | None = option(
        None,
        "Where people open the page ('https://rag.example.com/'), for links to it in incidents and "
        "notices; None: no links to it.",
        change="When the page is reached from other machines, or through a proxy.",
    )

    feedback: bool = option(
        False,
        "Take people's feedback by POST at /ragmonitor/feedback; on another address than loopback "
        "only with feedback_token.",
        change="When a front end, or a service without a monitor, is to send it.",
    )
    feedback_token: SecretStr | None = option(
        None,
        "What a client must send as 'Authorization: Bearer ...' to give feedback; None: whoever is "
        "on this machine may.",
        change="When feedback comes from other machines.",
        min_length=16,
    )
    feedback_origins: Names = option(
        (),
        "Websites whose pages may send feedback ('https://app.example.com'): the CORS list.",
        change="When browsers send it to the monitor itself.",
    )

    def metrics_url(self, *, machine: str = "127.0.0.1") -> str:
        """Return where /metrics is served; empty: nowhere, or at a port that is not known yet.

        Args:
            machine: The name of this machine, where it listens on all addresses.
        """
        if not self.enabled or self.port == 0:
            return ""
        host = machine if self.host in _ANY_HOST else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    @property
    def page_url(self) -> str:
        """The folder of the page for people, with a slash at its end; empty: it is not known."""
        return "" if self.ui_url is None else f"{self.ui_url.rstrip('/')}/ragmonitor/"

    @field_validator("ui_url")
    @classmethod
    def _is_an_address_of_people(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")) or any(c in value for c in " ?#<>"):
            raise ValueError("an address begins with http:// or https:// and has no query")
        return value.rstrip("/").removesuffix("/ragmonitor")

    @field_validator("ui_trace_url")
    @classmethod
    def _is_an_address_of_traces(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")) or "{trace_id}" not in value:
            raise ValueError("an address begins with http:// or https:// and holds {trace_id}")
        return value

    @field_validator("feedback_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            scheme, _, host = each.partition("://")
            if scheme not in ("http", "https") or not host or set(host) & set("/?#*@ "):
                raise ValueError(f"{each!r} is no origin such as https://app.example.com")
        return tuple(each.lower() for each in value)

    @model_validator(mode="after")
    def _pages_are_served_beside_metrics(self) -> Self:
        for name in ("ui", "feedback"):
            if getattr(self, name) and not self.enabled:
                raise ValueError(
                    f"server.{name} is served beside /metrics; it needs server.enabled"
                )
        return self


class ExportSettings(Group):
    """The way in which traces are emitted."""

    place = "export"

    traces: bool = option(
        True,
        "Emit traces: through the application's tracer provider, else by OTLP where an "
        "OTEL_EXPORTER_OTLP_* endpoint is set, else not at all.",
        change="When numbers are enough.",
    )
    link_traces: bool = option(
        False,
        "Where OpenInference traces an interaction already, link the scores to its span instead of "
        "emitting a second tree.",
        change="Beside OpenInference's instrumentations.",
    )
    judge_wait_s: float = option(
        0.0,
        "Seconds that a trace is held for the judge's scores; 0: they follow on their own.",
        change="For backends that do not join linked spans.",
        ge=0,
        le=20,
    )


def _by_signal(value: Any) -> Any:
    if isinstance(value, str):
        pairs = [part.rpartition("=") for part in value.split(",") if part.strip()]
        named = {name.strip() or "hallucination": level for name, _, level in pairs}
        if len(named) < len(pairs):
            raise ValueError("one signal has two; write 'hallucination=0.05,faithfulness=0.9'")
        return named
    return {"hallucination": value} if isinstance(value, int | float) else value


class Settings(Group):
    """Every option with its default. What costs money is never a default."""

    service: str = option(
        lambda: os.environ.get("OTEL_SERVICE_NAME", "").encode(errors="replace").decode() or "rag",
        "Name of the monitored application, the label `service` of every series. Default: "
        "OTEL_SERVICE_NAME, else 'rag'.",
        change="Always.",
        min_length=1,
    )
    service_version: str = option(
        "",
        "Version of the monitored application; a change is marked on dashboards.",
        change="With each release.",
    )
    judge: JudgeSettings = Field(default_factory=JudgeSettings)
    sample: SamplingSettings = Field(default_factory=SamplingSettings)
    budget: Budget = Field(default_factory=Budget)
    objectives: Annotated[dict[str, float], BeforeValidator(_by_signal)] = option(
        dict,
        "What is accepted, by signal: a hallucination rate of at most 0.05, a mean faithfulness of "
        "at least 0.9: 'hallucination=0.05,faithfulness=0.9'; a bare number is the hallucination "
        "rate. What is not given is learned from 1,000 verdicts and whole days.",
        change="As soon as you know what you promise.",
    )
    evaluators: Parts = option(
        (),
        "Names from the table of evaluators, or in Python the evaluators themselves; empty: all "
        "that score by default.",
        change="To leave some out, or to add those that cost calls.",
    )
    exporters: Parts = option(
        (),
        "Places for the scores: 'phoenix:URL', 'langfuse:URL', 'jsonl:FILE', or in Python "
        "`Phoenix(url)`, `Langfuse(url)`, `JsonLines(path)` and exporters of your own.",
        change="To see scores beside traces, or to keep every report.",
    )
    state: StatePlace = option(
        None,
        "A file (or a folder, which gets one) in which sums, alarms, the budget and what was "
        "learned outlive restarts; the processes of a machine that name the same one share them, "
        "and any of them shows the counts of all. Processes of several machines share a Redis "
        "server instead ('redis://host:6379/0', with TLS 'rediss://...'). None: each process has "
        "its own, for its lifetime.",
        change="In production.",
    )
    content: ContentSettings = Field(default_factory=ContentSettings)
    stream: StreamSettings = Field(default_factory=StreamSettings)
    worker: Literal["thread", "process"] | None = option(
        None,
        "Where answers are scored and exported: on a thread of the application, or in a process of "
        "its own, `ragmonitor worker`, which the monitor starts (`process`). None: in a process "
        "where a model judges, which takes seconds to import, else on a thread. What a worker "
        "cannot import, such as a judge that is an object of `__main__`, keeps the work on a "
        "thread; one line of the log says so.",
        change="`process` where a request must not share its interpreter with scoring, `thread` "
        "where memory is tight.",
    )
    server: ServerSettings = Field(default_factory=ServerSettings)
    # What is changed later, if ever.
    capture: CaptureSettings = Field(default_factory=CaptureSettings)
    alarms: AlarmSettings = Field(default_factory=AlarmSettings)
    estimation: EstimationSettings = Field(default_factory=EstimationSettings)
    export: ExportSettings = Field(default_factory=ExportSettings)
    receive: ReceiveSettings = Field(default_factory=ReceiveSettings)

    @field_validator("objectives")
    @classmethod
    def _within_reach(cls, value: dict[str, float]) -> dict[str, float]:
        for signal, level in value.items():
            if not 0 < level < 1:
                raise ValueError(f"{signal}={level}: an objective lies between 0 and 1")
        return value

    @classmethod
    def load(cls, **options: Any) -> Settings:
        """Return the settings; options that are None count as not given.

        A group merges by its options: what a constructor's group does not set, a variable may.

        Raises:
            SettingsError: An option is unknown, missing or out of range.
        """
        named = {name: value for name, value in options.items() if value is not None}
        _refuse_unknown(named, _keyword)
        values: dict[str, Any] = {}
        for source in (_from_file(), _from_variables(), named):
            _merge(values, source)
        own = getattr(values.get("judge", {}).get("model"), "budget", None)
        if isinstance(own, Budget):
            if "budget" in named:
                raise SettingsError("give the budget once: to the judge, or to the monitor")
            _merge(values, {"budget": own})
        return cls(**values)

    def with_whole_paths(self) -> Settings:
        """Return the same settings, with every path as seen from the current folder.

        The application may go to another folder later, and a worker begin there.
        """
        changed: dict[str, Any] = {"exporters": tuple(map(_whole_file, self.exporters))}
        if isinstance(self.state, Path):
            changed["state"] = _whole(self.state)
        if (answers := self.judge.reference_answers) is not None:
            update = {"reference_answers": _whole(answers)}
            changed["judge"] = self.judge.model_copy(update=update)
        if (labels := self.estimation.human_labels) is not None:
            update = {"human_labels": _whole(labels)}
            changed["estimation"] = self.estimation.model_copy(update=update)
        return self.model_copy(update=changed)


def _whole(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except (OSError, RuntimeError):  # the current folder has been removed; no such home
        return path


def _whole_file(exporter: Any) -> Any:
    """Return the text of an exporter that writes a file, with the whole path; others as they are.

    `jsonl:` alone is refused later.
    """
    name, _, rest = exporter.partition(":") if isinstance(exporter, str) else ("", "", "")
    is_file = name.strip() == "jsonl" and rest.strip()
    return f"jsonl:{_whole(Path(rest.strip()))}" if is_file else exporter


# --- every option, by where it stands ------------------------------------------------------------


GROUPS: dict[str, type[Group]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Group)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option and its names."""

    path: OptionPath
    field: FieldInfo

    @property
    def name(self) -> str:
        """The name for people: `judge.timeout_s`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """`RAGMONITOR_JUDGE__TIMEOUT_S`."""
        return _variable(self.path)

    @property
    def change(self) -> str:
        """The reason to change it."""
        extra = self.field.json_schema_extra
        return str(extra["change"]) if isinstance(extra, dict) else ""

    @property
    def unit(self) -> str:
        """The unit of a number: the one that is given, or that ends its name; empty: it is none."""
        extra = self.field.json_schema_extra
        stated = str(extra["unit"]) if isinstance(extra, dict) else ""
        ends = (unit for end, unit in _UNITS.items() if self.path[-1].endswith(end))
        return stated or next(ends, "")

    def value(self, settings: Settings) -> Any:
        """Return its value."""
        value: Any = settings
        for name in self.path:
            value = getattr(value, name)
        return value


def _variable(path: OptionPath) -> str:
    return PREFIX + "__".join(path).upper()


def _options() -> Iterator[Option]:
    for name, field in Settings.model_fields.items():
        if name not in GROUPS:
            yield Option(path=(name,), field=field)
    for name, group in GROUPS.items():
        for inner, field in group.model_fields.items():
            yield Option(path=(name, inner), field=field)


OPTIONS: tuple[Option, ...] = tuple(_options())
"""Those at the top first, then group by group."""


VARIABLES: frozenset[str] = frozenset(
    [option.variable for option in OPTIONS]
    + [_variable((name,)) for name, group in GROUPS.items() if group.short or name == "budget"]
)
"""Every variable that is heeded: of the options, and of the groups that have a short form."""


def sources() -> dict[OptionPath, str]:
    """Return where the options that are set come from: `variable` or `file`."""
    by_option: dict[OptionPath, str] = {}
    for name, source in (("file", _from_file()), ("variable", _from_variables())):
        by_option |= dict.fromkeys(_paths(source), name)
    return by_option


# --- the sources ---------------------------------------------------------------------------------


def _from_file() -> dict[str, Any]:
    """Return the options of the file, in groups.

    Raises:
        SettingsError: It cannot be read, or holds what is no option.
    """
    try:
        # Editors of Windows put a mark of the encoding first, which is no TOML.
        tables = tomllib.loads(Path(FILE).read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{FILE}: {error}") from error
    outside = sorted(tables.keys() - {TABLE})
    if outside:
        raise SettingsError(f"{FILE}: {outside[0]} stands outside of [{TABLE}]")
    values = tables.get(TABLE, {})
    if not isinstance(values, dict):
        raise SettingsError(f"{FILE}: {TABLE} is no table; write [{TABLE}] in a line of its own")
    _refuse_unknown(values, _key)
    return _grouped(values)


def _from_variables() -> dict[str, Any]:
    """Return the options of the variables, in groups; empty variables count as not set.

    Raises:
        SettingsError: A variable is like an option's and is none.
    """
    values: dict[str, Any] = {}
    # By name: the short form of a group comes before its options, which win.
    for variable, written in sorted(os.environ.items()):
        value = written.strip()  # files of variables end lines with a blank, or as Windows does
        if not variable.startswith(PREFIX) or not value or _is_of_kubernetes(variable, value):
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        if not _is_option(path):
            hint = _nearest(path, _variable)
            if hint:
                raise SettingsError(f"unknown variable {variable}{hint}")
            logger.warning("ragmonitor: variable %s is no setting and is not heeded", variable)
            continue
        *groups, name = path
        _merge(values, {groups[0]: {name: value}} if groups else {name: value})
    return values


def _is_of_kubernetes(variable: str, value: str) -> bool:
    """Return whether a service that Kubernetes calls `ragmonitor...` put the variable there."""
    is_port = variable.endswith("_PORT") and not variable.endswith("_SERVICE_PORT")
    return bool(_OF_KUBERNETES.search(variable)) and (not is_port or "://" in value)


def _grouped(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: GROUPS[name].values_of(value) if name in GROUPS else value
        for name, value in values.items()
    }


def _merge(values: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Put a source over the values, option by option."""
    for name, value in _grouped(source).items():
        values[name] = {**values.get(name, {}), **value} if name in GROUPS else value


# --- wrong names ---------------------------------------------------------------------------------


def _is_option(path: OptionPath) -> bool:
    if len(path) == 1:
        return path[0] in Settings.model_fields
    return len(path) == 2 and path[0] in GROUPS and path[1] in GROUPS[path[0]].model_fields


def _paths(values: Mapping[str, Any]) -> Iterator[OptionPath]:
    """Yield where the values stand: in groups, also in such as there are none, else at the top."""
    for name, value in values.items():
        is_group = name in GROUPS or name not in Settings.model_fields
        if is_group and isinstance(value, Mapping):
            yield from ((name, str(inner)) for inner in value)
        else:
            yield (name,)


def _refuse_unknown(values: Mapping[str, Any], spelt: Callable[[OptionPath], str]) -> None:
    for path in _paths(values):
        if not _is_option(path):
            where = f"{FILE}: " if spelt is _key else ""
            raise SettingsError(f"{where}unknown option {'.'.join(path)}{_nearest(path, spelt)}")


def _nearest(path: OptionPath, spelt: Callable[[OptionPath], str]) -> str:
    """Return a question whether the nearest option was meant; empty: none is near."""
    known: dict[str, OptionPath] = {name: (name,) for name in Settings.model_fields}
    for each in OPTIONS:
        known.setdefault("_".join(each.path), each.path)
    for each in OPTIONS:
        known.setdefault(each.path[-1], each.path)
    names = ["_".join(path), path[-1]]
    if group := nearest(path[0], GROUPS, cutoff=_SIMILAR):  # before a group that has the name, too
        names.insert(1, f"{group}_{path[-1]}")
    if path[0] not in GROUPS:
        names.append(path[0])
    same = [name for name in names if name in known]
    for near in (*same, *(nearest(name, known, cutoff=_SIMILAR) for name in names)):
        if near:
            return f"; did you mean {spelt(known[near])}?"
    return ""


def _keyword(path: OptionPath) -> str:
    if len(path) == 1:
        return path[0]
    return f"{path[0]}={GROUPS[path[0]].__name__}({path[1]}=...)"


def _key(path: OptionPath) -> str:
    return f"{path[-1]} in [{'.'.join((TABLE, *path[:-1]))}]"


def _readable(error: ValidationError, prefix: OptionPath) -> str:
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in (*prefix, *problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name}: {message}" if name else message)
    return "; ".join(lines)
