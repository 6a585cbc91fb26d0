"""One frozen `Settings`: constructor, else `RAGMONITOR_*`, else `ragmonitor.toml`, else default.

The only reader of the environment and of the file.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypedDict

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ragmonitor.errors import SettingsError
from ragmonitor.guard import logger

PREFIX = "RAGMONITOR_"
FILE = "ragmonitor.toml"
_OF_KUBERNETES = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP)(_\w+)?)$")


class Settings(BaseSettings):
    """Every option with its default. What costs money is never a default."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, toml_file=FILE, frozen=True, extra="forbid", env_ignore_empty=True
    )

    service: str = Field(
        default_factory=lambda: os.environ.get("OTEL_SERVICE_NAME", "") or "rag",
        min_length=1,
        description="Name of the monitored application; label of every series. "
        "Default: OTEL_SERVICE_NAME, else 'rag'.",
    )
    evaluators: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Names from the table of evaluators, in a variable separated by commas; "
        "empty: all that are registered.",
    )

    judge: str | None = Field(
        default=None,
        description="A litellm model name ('openai/gpt-4o-mini'); none: built-in judge only.",
    )
    judge_rate: float = Field(
        default=0.1, gt=0, le=1, description="Share of answers the judge reads, budget permitting."
    )
    budget_usd_per_day: float | None = Field(
        default=None, gt=0, description="Most the judge may spend in 24 hours, in US dollars."
    )
    budget_usd_per_hour: float | None = Field(
        default=None, gt=0, description="Most the judge may spend in an hour, in US dollars."
    )
    budget_tokens_per_day: int | None = Field(
        default=None, gt=0, description="Most tokens the judge may use in 24 hours."
    )
    budget_tokens_per_hour: int | None = Field(
        default=None, gt=0, description="Most tokens the judge may use in an hour."
    )
    budget_calls_per_day: int | None = Field(
        default=None, gt=0, description="Most calls the judge may make in 24 hours."
    )
    budget_calls_per_hour: int | None = Field(
        default=None, gt=0, description="Most calls the judge may make in an hour."
    )
    state_dir: Path | None = Field(
        default=None,
        description="A folder in which the budget outlives restarts; processes that name the same "
        "one share the budget. None: each process has its own, for its lifetime.",
    )
    judge_api_base: str | None = Field(
        default=None, description="Address of an OpenAI-compatible server, for local models."
    )
    judge_price_input_usd: float | None = Field(
        default=None, ge=0, description="US dollars per million input tokens, if litellm has none."
    )
    judge_price_output_usd: float | None = Field(
        default=None, ge=0, description="US dollars per million output tokens, if litellm has none."
    )
    judge_timeout_s: float = Field(default=15.0, gt=0, le=600, description="Per judge call.")
    judge_reading_timeout_s: float | None = Field(
        default=None,
        gt=0,
        le=1200,
        description="Of a reading, over all its calls and pauses; none: twice judge_timeout_s.",
    )
    judge_concurrency: int = Field(default=8, ge=1, le=256, description="Readings in flight.")
    judge_waiting_most: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Drawn answers that may wait for the judge; beyond, none is drawn.",
    )
    judge_reply_format: Literal["json_schema", "json_object", "text"] = Field(
        default="json_object",
        description="The strictest form of reply to ask the judge for; what its model rejects is "
        "stepped down from.",
    )
    judge_tokens_per_call: int = Field(
        default=8_000,
        ge=1_500,
        description="Estimated tokens of a judge's prompt; longer evidence is spread over calls.",
    )
    judge_calls_most: int = Field(
        default=6, ge=1, le=50, description="Over how many calls evidence may be spread."
    )
    judge_cache_size: int = Field(
        default=1_000, ge=0, description="Readings kept for exact duplicates, in memory; 0: none."
    )
    judge_cache_age_s: float = Field(
        default=3_600.0, gt=0, description="How long a reading serves exact duplicates."
    )
    judge_fallbacks: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Models that read in turn what the judge's provider fails to, each under its "
        "own name; 'model@http://address/v1' for another server. In a variable separated by "
        "commas.",
    )
    second_judge: str | None = Field(
        default=None,
        description="A model that reads a share of the judged answers too, to see how far the two "
        "agree; 'model@http://address/v1' for another server.",
    )
    second_judge_rate: float = Field(
        default=0.1, gt=0, le=1, description="Share of the judged answers it reads."
    )
    second_judge_on_alarm: bool = Field(
        default=True, description="While an alarm is active, the second judge reads all of them."
    )
    judge_repeat_rate: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Share of the judged answers that the judge reads twice, to know how often it "
        "disagrees with itself.",
    )
    judge_sample_by: Literal["interaction", "session"] = Field(
        default="interaction",
        description="What the coin falls for: each answer, or all answers of a session alike.",
    )
    judge_always: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("ragmonitor:judge", "user_feedback"),
        description="Tags, or names of attributes, of answers that are judged for certain, budget "
        "permitting; in a variable separated by commas.",
    )
    judge_floor_by: str | None = Field(
        default=None,
        description="An attribute of interactions (route, tenant, ...) of which every value gets "
        "a least number of judged answers.",
    )
    judge_floor_per_hour: float = Field(
        default=9.0,
        gt=0,
        description="Answers judged per hour, at least, for each value of judge_floor_by; all "
        "together at most half of what the budget bears.",
    )
    anchors_per_day: int = Field(
        default=20,
        ge=0,
        le=1_000,
        description="Frozen answers that the judge reads again each day, to tell a moved judge "
        "from a moved application; 0: none. Processes that name no state_dir have their own each, "
        "and so they do unless content='all'.",
    )
    anchors: Path | None = Field(
        default=None,
        description="Answers of your own to freeze, a JSON Lines file of question, contexts, "
        "answer and hallucinated (docs/statistics.md).",
    )

    tolerate: Annotated[dict[str, float], NoDecode] = Field(
        default_factory=dict,
        description="What is still accepted, by signal: a hallucination rate of at most 0.05, a "
        "mean faithfulness of at least 0.9: 'hallucination=0.05,faithfulness=0.9'; a bare number "
        "is the hallucination rate. What is not given is learned from 1,000 verdicts and whole "
        "days.",
    )
    false_alarm_every_days: float = Field(
        default=30.0,
        gt=0,
        le=3_650,
        description="While everything keeps to what is tolerated, all alarms together are raised "
        "at most once in so many days, on average.",
    )
    alarms: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("*",),
        description="Signals that may raise an alarm, or patterns of their names; in a variable "
        "separated by commas, 'none' for nothing.",
    )
    warning_boost: float = Field(
        default=4.0,
        ge=1,
        le=100,
        description="What sampling is raised by, for 45 minutes, when the built-in score alone "
        "gets suspicious; 1: nothing.",
    )
    group_by: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("language",),
        description="Parts of the traffic that get a hallucination rate of their own: 'language', "
        "'topic', or attributes of interactions (route, version, ...); in a variable separated by "
        "commas, 'none' for nothing.",
    )
    drift_reference_size: int = Field(
        default=2_000,
        ge=100,
        le=100_000,
        description="Questions and retrievals that later ones are compared with.",
    )
    human_labels: Path | None = Field(
        default=None,
        description="A CSV of people's verdicts (docs/statistics.md): corrects the judged rate.",
    )
    service_version: str = Field(
        default="", description="Of the monitored application; a change is marked on dashboards."
    )
    judge_wait_s: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="Hold a trace this long for the judge's scores; 0: they follow on their own.",
    )

    interaction: Literal["outermost", "innermost"] = Field(
        default="outermost",
        description="Which run is the interaction, where several are nested: the outermost, or the "
        "innermost in which something was retrieved and then a model asked.",
    )
    root_names: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Only runs of these names are interactions, wherever they are nested; in a "
        "variable separated by commas. A run tagged 'ragmonitor:interaction' is one without.",
    )
    retrieval_tools: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("*search*", "*retriev*", "*lookup*", "*knowledge*"),
        description="Patterns of tool names: the text that such a tool gives counts as retrieved, "
        "where neither a retriever run nor documents of its own are seen.",
    )
    link_traces: bool = Field(
        default=False,
        description="Where OpenInference traces an interaction already, link the scores to its "
        "span instead of emitting a second tree.",
    )

    scoring_process: bool = Field(
        default=False,
        description="Read answers in a helper process instead of on a thread (POSIX): for event "
        "loops that must not wait for the interpreter's lock; about 30 MB per process.",
    )
    builtin_max_characters: int = Field(
        default=200_000,
        ge=1_000,
        description="Most characters of question, chunks and answer together that the built-in "
        "judge reads; longer is `too_long`.",
    )
    queue_size: int = Field(
        default=10_000, ge=1, description="Finished interactions that may wait for the worker."
    )
    open_runs_most: int = Field(
        default=50_000, ge=100, description="Framework runs that may be open at once."
    )
    open_run_age_s: float = Field(
        default=900.0, gt=0, description="A run open for longer is taken as abandoned."
    )
    paused_run_age_s: float = Field(
        default=14_400.0,
        gt=0,
        description="A graph that waits for a person for longer is taken as never resumed.",
    )

    traces: bool = Field(
        default=True,
        description="Emit traces: through the application's tracer provider, else by OTLP where "
        "an OTEL_EXPORTER_OTLP_* endpoint is set, else not at all.",
    )
    prometheus: bool = Field(default=True, description="Serve /metrics.")
    prometheus_host: str = Field(default="127.0.0.1", description="Address /metrics listens on.")
    prometheus_port: int = Field(
        default=9464, ge=0, le=65535, description="Port of /metrics; 0: any free one."
    )
    ui: bool = Field(
        default=False,
        description="Serve a page of the numbers, the alarms and the worst answers beside "
        "/metrics; on another address than loopback only with ui_token.",
    )
    ui_token: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="What a browser must show to see the page, once as /?token=...; none: whoever "
        "is on this machine may see it.",
    )
    ui_trace_url: str | None = Field(
        default=None,
        description="Where the page links an answer's trace to "
        "('http://localhost:16686/trace/{trace_id}').",
    )
    jsonl: Path | None = Field(
        default=None, description="Append every report to this file, one JSON object a line."
    )
    phoenix_url: str | None = Field(
        default=None,
        description="Put the scores on the traces in this Phoenix ('http://localhost:6006').",
    )
    phoenix_api_key: SecretStr | None = Field(
        default=None, description="Where Phoenix asks for one."
    )
    langfuse_url: str | None = Field(
        default=None,
        description="Put the scores on the traces in this Langfuse ('https://cloud.langfuse.com').",
    )
    langfuse_public_key: str | None = Field(
        default=None, description="Of the project in Langfuse, 'pk-lf-...'."
    )
    langfuse_secret_key: SecretStr | None = Field(
        default=None, description="Of the project in Langfuse, 'sk-lf-...'."
    )
    content: Literal["all", "hashed", "none"] = Field(
        default="all",
        description="Whether questions, prompts, chunks and answers may stand in traces and files: "
        "as they are, as keyed hashes, or not at all. Judges read them either way.",
    )
    content_hash_key: SecretStr | None = Field(
        default=None,
        min_length=16,
        description="Of the hashes under content='hashed': with the same key in every process "
        "equal texts have equal hashes everywhere. None: random for each process.",
    )
    attribute_bytes_most: int = Field(
        default=32 * 1024, ge=256, description="UTF-8 bytes after which a span's value is cut."
    )
    span_bytes_most: int = Field(
        default=256 * 1024,
        ge=4096,
        description="UTF-8 bytes that the names and values of one span may take together.",
    )

    redaction: Annotated[tuple[str, ...], NoDecode] = Field(
        default=("secrets",),
        description="What is replaced in every text before judges and exporters see it: 'secrets' "
        "(keys, tokens, passwords), 'personal' (by Microsoft Presidio); in a variable separated by "
        "commas, 'none' for nothing.",
    )
    personal_entities: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(
            "PERSON",
            "EMAIL_ADDRESS",
            "PHONE_NUMBER",
            "CREDIT_CARD",
            "IBAN_CODE",
            "US_SSN",
            "CN_ID_CARD",
            "NATIONAL_ID",
        ),
        description="What redaction='personal' looks for, by Presidio's names.",
    )
    personal_models: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="spaCy pipelines that find names: installed packages, or folders, one for "
        "English and one for Chinese. Empty: the best that is installed for each.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, strongest first."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def hash_key(self) -> bytes | None:
        """`content_hash_key` as bytes."""
        key = self.content_hash_key
        return None if key is None else key.get_secret_value().encode()

    @field_validator(
        "evaluators",
        "root_names",
        "retrieval_tools",
        "redaction",
        "personal_entities",
        "personal_models",
        "judge_fallbacks",
        "judge_always",
        "alarms",
        "group_by",
        mode="before",
    )
    @classmethod
    def _split_at_commas(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value

    @field_validator("redaction", "alarms", "group_by")
    @classmethod
    def _none_is_nothing(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return () if value == ("none",) else value  # a variable cannot be set to nothing

    @field_validator("tolerate", mode="before")
    @classmethod
    def _by_signal(cls, value: Any) -> Any:
        if isinstance(value, str):
            pairs = (part.rpartition("=") for part in value.split(",") if part.strip())
            return {name.strip() or "hallucination": level for name, _, level in pairs}
        return {"hallucination": value} if isinstance(value, (int, float)) else value

    @field_validator("tolerate")
    @classmethod
    def _within_reach(cls, value: dict[str, float]) -> dict[str, float]:
        for signal, level in value.items():
            if not 0 < level < 1:
                raise ValueError(f"{signal}={level}: what is tolerated lies between 0 and 1")
        return value

    @property
    def budget_unit(self) -> Literal["usd", "tokens", "calls"]:
        """In what the budget is given; `tokens` where there is none."""
        given = (unit for unit, limits in self._budgets.items() if limits != (None, None))
        return next(given, "tokens")

    @property
    def has_budget(self) -> bool:
        """Whether there is any limit to what a judge may spend."""
        per_day, per_hour = self.budget
        return per_day is not None or per_hour is not None

    @property
    def budget(self) -> tuple[float | None, float | None]:
        """The limits per day and per hour, in the budget's unit."""
        return self._budgets[self.budget_unit]

    @property
    def _budgets(
        self,
    ) -> dict[Literal["usd", "tokens", "calls"], tuple[float | None, float | None]]:
        return {
            "usd": (self.budget_usd_per_day, self.budget_usd_per_hour),
            "tokens": (self.budget_tokens_per_day, self.budget_tokens_per_hour),
            "calls": (self.budget_calls_per_day, self.budget_calls_per_hour),
        }

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if sum(limits != (None, None) for limits in self._budgets.values()) > 1:
            raise ValueError(
                "give one budget: budget_usd_per_day, budget_usd_per_hour or both; or "
                "budget_tokens_per_day, budget_tokens_per_hour or both; or budget_calls_per_day, "
                "budget_calls_per_hour or both"
            )
        return self

    @model_validator(mode="after")
    def _a_judge_needs_a_budget(self) -> Self:
        for name in (self.judge, *self.judge_fallbacks, self.second_judge):
            if name and not self.has_budget:
                raise ValueError(
                    f"judge={name!r} costs money and has no budget; "
                    "set budget_usd_per_day, budget_tokens_per_day or budget_calls_per_day"
                )
        return self

    @model_validator(mode="after")
    def _every_judge_is_another(self) -> Self:
        names = [name for name in (self.judge, *self.judge_fallbacks, self.second_judge) if name]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(
                f"{', '.join(sorted(twice))} is named twice among judge, judge_fallbacks and "
                "second_judge; their scores would be one series"
            )
        return self

    @field_validator("phoenix_url", "langfuse_url")
    @classmethod
    def _is_a_servers_address(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")):
            raise ValueError("an address begins with http:// or https://")
        if "/v1/" in value or "/api/" in value:
            raise ValueError("give the server's own address, without the path of an API")
        return value

    @field_validator("ui_trace_url")
    @classmethod
    def _is_an_address_of_traces(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")) or "{trace_id}" not in value:
            raise ValueError("an address begins with http:// or https:// and holds {trace_id}")
        return value

    @model_validator(mode="after")
    def _the_page_is_served_beside_metrics(self) -> Self:
        if self.ui and not self.prometheus:
            raise ValueError("ui is served beside /metrics; it needs prometheus=True")
        return self

    @model_validator(mode="after")
    def _scores_need_their_traces_and_keys(self) -> Self:
        keys = ("langfuse_public_key", "langfuse_secret_key")
        missing = [name for name in keys if getattr(self, name) is None]
        if self.langfuse_url is not None and missing:
            raise ValueError(f"langfuse_url needs keys; set {' and '.join(missing)}")
        if self.langfuse_url is None and len(missing) < len(keys):
            raise ValueError("Langfuse's keys are set without langfuse_url; set it too")
        if self.phoenix_url is None and self.phoenix_api_key is not None:
            raise ValueError("phoenix_api_key is set without phoenix_url; set it too")
        if not self.traces:
            for name in ("phoenix_url", "langfuse_url"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} puts scores on traces; it needs traces=True")
        return self

    @classmethod
    def load(cls, **options: Any) -> Settings:
        """Return the settings; options that are None count as not given.

        Raises:
            SettingsError: An option is unknown, missing or out of range.
        """
        _refuse_misspelt_variables()
        try:
            return cls(**{name: value for name, value in options.items() if value is not None})
        except ValidationError as error:
            raise SettingsError(_readable(error)) from None
        except ValueError as error:  # a broken ragmonitor.toml, an unreadable variable
            raise SettingsError(f"{FILE} or a {PREFIX}* variable: {error}") from error


class Options(TypedDict, total=False):
    """`Settings` as keyword arguments of `Monitor`."""

    evaluators: tuple[str, ...]
    judge_rate: float
    budget_usd_per_day: float
    budget_usd_per_hour: float
    budget_tokens_per_day: int
    budget_tokens_per_hour: int
    budget_calls_per_day: int
    budget_calls_per_hour: int
    state_dir: Path | str
    judge_api_base: str
    judge_price_input_usd: float
    judge_price_output_usd: float
    judge_timeout_s: float
    judge_reading_timeout_s: float
    judge_concurrency: int
    judge_waiting_most: int
    judge_reply_format: Literal["json_schema", "json_object", "text"]
    judge_tokens_per_call: int
    judge_calls_most: int
    judge_cache_size: int
    judge_cache_age_s: float
    judge_fallbacks: tuple[str, ...]
    second_judge: str
    second_judge_rate: float
    second_judge_on_alarm: bool
    judge_repeat_rate: float
    judge_sample_by: Literal["interaction", "session"]
    judge_always: tuple[str, ...]
    judge_floor_by: str
    judge_floor_per_hour: float
    anchors_per_day: int
    anchors: Path | str
    tolerate: dict[str, float] | float | str
    false_alarm_every_days: float
    alarms: tuple[str, ...]
    warning_boost: float
    group_by: tuple[str, ...]
    drift_reference_size: int
    human_labels: Path | str
    service_version: str
    judge_wait_s: float
    interaction: Literal["outermost", "innermost"]
    root_names: tuple[str, ...]
    retrieval_tools: tuple[str, ...]
    link_traces: bool
    scoring_process: bool
    builtin_max_characters: int
    queue_size: int
    open_runs_most: int
    open_run_age_s: float
    paused_run_age_s: float
    traces: bool
    prometheus: bool
    prometheus_host: str
    prometheus_port: int
    ui: bool
    ui_token: SecretStr | str
    ui_trace_url: str
    jsonl: Path | str
    phoenix_url: str
    phoenix_api_key: SecretStr | str
    langfuse_url: str
    langfuse_public_key: str
    langfuse_secret_key: SecretStr | str
    content: Literal["all", "hashed", "none"]
    content_hash_key: SecretStr | str
    attribute_bytes_most: int
    span_bytes_most: int
    redaction: tuple[str, ...]
    personal_entities: tuple[str, ...]
    personal_models: tuple[str, ...]


def _refuse_misspelt_variables() -> None:
    for variable in os.environ:
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or name in Settings.model_fields:
            continue
        # A service that Kubernetes calls `ragmonitor` puts its addresses into every container.
        if _OF_KUBERNETES.search(variable):
            continue
        if nearest := _nearest(name, prefix=PREFIX):
            raise SettingsError(f"unknown variable {variable}{nearest}")
        logger.warning("ragmonitor: variable %s is no setting and is not heeded", variable)


def _readable(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown option {name}{_nearest(name)}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{name}: {message}" if name else message)
    return "; ".join(lines)


def _nearest(name: str, prefix: str = "") -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.75)
    if not close:
        return ""
    return f"; did you mean {(prefix + close[0]).upper() if prefix else close[0]}?"
