"""The settings in groups: constructor, else `RAGMONITOR_*` variable, else `ragmonitor.toml`.

This module is the only reader of the variables and of the file, and the only list of the options:
Monitor's keywords, docs/settings.md and `ragmonitor doctor` follow from its models.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

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

from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import SettingsError, nearest
from ragmonitor.runtime.guard import logger
from ragmonitor.runtime.printable import encodable
from ragmonitor.runtime.protocols import BudgetUnit
from ragmonitor.runtime.redis_client import is_redis

PREFIX = "RAGMONITOR_"
FILE = "ragmonitor.toml"
TABLE = "ragmonitor"
"""The table of the file that holds the options."""
_OF_KUBERNETES = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP)(_\w+)?)$")
_SIMILAR = 0.75
"""A misspelt name is at least so similar to the right one, from 0 to 1 as `difflib` measures."""

OptionPath = tuple[str, ...]
"""The place of an option: `("service",)` or `("judge", "timeout_s")`."""


def _at_commas(value: Any) -> Any:
    if isinstance(value, str):
        value = tuple(name.strip() for name in value.split(",") if name.strip())
    # A variable cannot be set to nothing.
    return () if isinstance(value, tuple | list) and list(value) == ["none"] else value


Names = Annotated[tuple[str, ...], BeforeValidator(_at_commas)]
"""Names; in a variable separated by commas, `none` for no name."""


def _place(value: Any) -> Any:
    """Return an address, or a path as seen from the current folder, `~` being the home folder.

    The application may go to another folder later, and a worker begin there.
    """
    if isinstance(value, str) and "://" in value:
        if is_redis(value) or value.startswith("redis+sentinel://"):
            return SecretStr(value)
        raise ValueError("is a file or a folder, or the address of a server, 'redis://host:6379/0'")
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) else value


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
    short: ClassVar[str] = ""
    """The option that a plain value in the place of the group sets; empty: there is none."""

    def __init__(self, /, **values: Any) -> None:
        """Check the options.

        Raises:
            SettingsError: An option is unknown or out of range.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(_readable(error, type(self))) from None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what `repr` shows: addresses without the user and password in them."""
        for name, value in super().__repr_args__():
            texts = value if isinstance(value, tuple) else (value,)
            hidden = tuple(shown(each) if isinstance(each, str) else each for each in texts)
            yield name, hidden if isinstance(value, tuple) else hidden[0]

    @classmethod
    def in_short(cls, value: Any) -> dict[str, Any] | None:
        """Return the options that a plain value in the place of this group sets; None: none."""
        return {cls.short: value} if cls.short else None


class JudgeSettings(Group):
    """The judges: who scores a sample of the answers, and how."""

    short = "model"

    model: Any = None
    """A litellm model name ('openai/gpt-4o-mini'), which needs a budget; 'encoder:MODEL', a
    classifier on this machine; or in Python any `Judge`. None: the built-in judge alone."""
    api_base: str | None = None
    """Address of an OpenAI-compatible server."""
    timeout_s: float = Field(default=15.0, gt=0, le=600)
    """Seconds that one call of the judge may take."""
    tokens_per_call: int = Field(default=8_000, ge=1_500)
    """Tokens of one prompt, estimated; longer evidence is spread over calls."""
    fallbacks: Names = ()
    """Models that litellm asks in turn where the judge's provider fails, each under its own name;
    'model@http://address/v1' for another server."""
    builtin: Any = None
    """Who scores every answer. None: the rules of the built-in judge; 'encoder:MODEL', a classifier
    on this machine (the rules score what it has no time for); or in Python an object with identity
    and assess()."""

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
    def _fallbacks_are_litellms(self) -> Self:
        if self.fallbacks and (self.name is None or self.name.startswith("encoder:")):
            raise ValueError("fallbacks are litellm's: they need a judge.model that litellm asks")
        return self


class Budget(Group):
    """The limit of all judges together: in dollars, tokens or calls, per day, hour or both."""

    usd_per_day: float | None = Field(default=None, gt=0)
    """US dollars in 24 hours."""
    usd_per_hour: float | None = Field(default=None, gt=0)
    """US dollars in an hour."""
    tokens_per_day: int | None = Field(default=None, gt=0)
    """Tokens in 24 hours."""
    tokens_per_hour: int | None = Field(default=None, gt=0)
    """Tokens in an hour."""
    calls_per_day: int | None = Field(default=None, gt=0)
    """Calls in 24 hours."""
    calls_per_hour: int | None = Field(default=None, gt=0)
    """Calls in an hour."""

    @classmethod
    def in_short(cls, value: Any) -> dict[str, Any] | None:
        """Return the limits of a text: `usd_per_day=5,usd_per_hour=1`."""
        if not isinstance(value, str):
            return None
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        return {name.strip(): limit.strip() for name, _, limit in pairs}

    @property
    def unit(self) -> BudgetUnit:
        """The unit of the budget; `tokens` where there is none."""
        return next(iter(self._units), "tokens")

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The limits per day and per hour, in the budget's unit."""
        return getattr(self, f"{self.unit}_per_day"), getattr(self, f"{self.unit}_per_hour")

    @property
    def is_given(self) -> bool:
        """Whether there is any limit."""
        return any(self.limits)

    @property
    def _units(self) -> list[BudgetUnit]:
        limits = [name for name, limit in self if limit is not None]
        units: tuple[BudgetUnit, ...] = get_args(BudgetUnit)
        return [unit for unit in units if any(name.startswith(unit) for name in limits)]

    @model_validator(mode="after")
    def _one_unit(self) -> Self:
        if len(self._units) > 1:
            raise ValueError("give one budget: in dollars, in tokens, or in calls")
        return self


class SamplingSettings(Group):
    """The choice of the answers that the judge scores."""

    short = "rate"

    rate: float = Field(default=0.1, gt=0, le=1)
    """Share of the answers that the judge scores, budget permitting."""
    floor_by: str | None = None
    """An attribute of interactions (route, tenant, ...) of which every value has at least nine
    judged answers an hour, budget permitting."""


class ContentSettings(Group):
    """Texts: what is replaced in them, and which may leave in traces and files."""

    short = "policy"

    policy: Literal["all", "hashed", "none"] | None = None
    """Whether texts leave: as they are, as keyed hashes, or not at all. None: they go where these
    settings send something, and into traces where
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says so. Judges see them either way."""
    hash_key: SecretStr | None = Field(default=None, min_length=16)
    """Key of the hashes: with the same key in every process equal texts have equal hashes
    everywhere. None: random for each process."""
    redaction: Parts = ("secrets",)
    """What is replaced in every text before judges and exporters see it: 'secrets', 'personal'
    (names, addresses and numbers of people), or in Python functions from a text to a text, which
    come last; 'none' for nothing."""

    @property
    def shown(self) -> Literal["all", "hashed", "none"]:
        """The policy for destinations that these settings name: everything but traces."""
        return self.policy or "all"

    @property
    def key(self) -> bytes | None:
        """`hash_key` as bytes."""
        return None if self.hash_key is None else self.hash_key.get_secret_value().encode()


class CaptureSettings(Group):
    """Capture: what counts as an interaction, and as retrieved."""

    root_names: Names = ()
    """Only runs of these names are interactions, wherever they are nested. A run tagged
    'ragmonitor:interaction' is one without."""
    retrieval_tools: Names = ("*search*", "*retriev*", "*lookup*", "*knowledge*")
    """Patterns of tool names: the text of such a tool counts as retrieved, where neither a
    retriever run nor documents are seen."""
    queue_size: int = Field(default=10_000, ge=1)
    """Finished interactions that may wait to be scored, or to be put on the stream."""


def _at_spaces(value: Any) -> Any:
    return tuple(value.split()) if isinstance(value, str) else value


class AlarmSettings(Group):
    """Alarms: which signals may raise one, how often by mistake, and who is told."""

    short = "signals"

    signals: Names = ("*",)
    """Signals that may raise an alarm, or patterns of their names; 'none' for nothing."""
    false_alarm_every_days: float = Field(default=30.0, gt=0, le=3_650)
    """Days between false alarms: while every objective is met, all alarms together are raised at
    most once in so many days, on average."""
    notify: Annotated[tuple[SecretStr, ...], BeforeValidator(_at_spaces)] = ()
    """Where notices of incidents go: addresses of Slack, Feishu/Lark, DingTalk, WeCom, Teams,
    e-mail or any webhook, as the library apprise writes them ('slack://A/B/C'), in a text separated
    by spaces. Needs the extra `notify`."""
    notify_language: Literal["en", "zh"] = "en"
    """Language of the notices."""


class EstimationSettings(Group):
    """The estimates beside the means of the whole traffic."""

    group_by: Names = ("language", "model")
    """Parts of the traffic that get a hallucination rate of their own: 'language', 'model', or
    attributes of interactions (route, ...); 'none' for nothing."""
    compare_by: Names = Field(default=("service_version",), max_length=4)
    """What versions of the application are compared by, live: 'service_version', or attributes of
    interactions (prompt_version, model, ...), up to four; 'none' for nothing."""
    prices: Names = ()
    """What models cost in US dollars per million tokens of input and output: 'my-model=0.5/1.5'.
    Others have the price of litellm's table, where it is installed."""


class ReceiveSettings(Group):
    """Where `ragmonitor receive` reads spans beside what comes over HTTP."""

    kafka: SecretStr | None = None
    """A topic that a Collector puts spans on, beside what comes over HTTP:
    kafka://broker:9092,broker:9092/otlp_spans. None: no topic is read."""


_ANY_HOST: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


class ServerSettings(Group):
    """The endpoint of /metrics, and the page beside it."""

    short = "enabled"

    enabled: bool = True
    """Serve /metrics."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    # Not OpenTelemetry's (9464 is its own /metrics), nor in Prometheus' list of exporters
    # (9100 to 9999, all given away), nor registered with IANA.
    port: int = Field(default=7247, ge=0, le=65535)
    """Port to listen on; 0: any free one."""
    ui: bool = False
    """Serve a page of the numbers, the alarms and the worst answers beside /metrics; beyond
    loopback only with server.token."""
    ui_trace_url: str | None = None
    """Where the page links an answer's trace to ('http://localhost:16686/trace/{trace_id}')."""

    ui_url: str | None = None
    """Where people open the page ('https://rag.example.com/'), for links to it in incidents and
    notices; None: no links to it."""

    feedback: bool = False
    """Take people's feedback by POST at /ragmonitor/feedback; beyond loopback only with
    server.token."""
    token: SecretStr | None = Field(default=None, min_length=16)
    """What a client must show to see the page (once as /?token=...), to give feedback, or to send
    spans: 'Authorization: Bearer ...'. None: no authentication for local clients."""

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

    @field_validator("ui_url", "ui_trace_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")):
            raise ValueError("an address begins with http:// or https://")
        return value.rstrip("/").removesuffix("/ragmonitor")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.ui_trace_url is not None and "{trace_id}" not in self.ui_trace_url:
            raise ValueError("ui_trace_url: the address of a trace holds {trace_id}")
        if (self.ui or self.feedback) and not self.enabled:
            raise ValueError("ui and feedback are served beside /metrics; they need enabled")
        return self


class ExportSettings(Group):
    """The way in which traces are emitted."""

    traces: bool = True
    """Emit traces: through the application's tracer provider, else by OTLP where an
    OTEL_EXPORTER_OTLP_* endpoint is set, else not at all."""


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

    service: str = Field(
        default_factory=lambda: encodable(os.environ.get("OTEL_SERVICE_NAME", "")) or "rag",
        min_length=1,
    )
    """Name of the monitored application, the label `service` of every series. Default:
    OTEL_SERVICE_NAME, else 'rag'."""
    service_version: str = ""
    """Version of the monitored application; a change is marked on dashboards."""
    judge: JudgeSettings = Field(default_factory=JudgeSettings)
    sample: SamplingSettings = Field(default_factory=SamplingSettings)
    budget: Budget = Field(default_factory=Budget)
    objectives: Annotated[dict[str, float], BeforeValidator(_by_signal)] = Field(
        default_factory=dict
    )
    """What is accepted, by signal: 'hallucination=0.05,faithfulness=0.9' is a hallucination rate of
    at most 0.05 and a mean faithfulness of at least 0.9; a bare number is the hallucination rate.
    What is not given is learned from 1,000 verdicts and whole days. Refused where the rules of the
    built-in judge score alone."""
    evaluators: Parts = ()
    """Names from the table of evaluators, or in Python the evaluators themselves; empty: all that
    score by default."""
    exporters: Parts = ()
    """Places for the scores: 'phoenix:URL', 'langfuse:URL', 'jsonl:FILE', or in Python
    `Phoenix(url)`, `Langfuse(url)`, `JsonLines(path)` and exporters of your own."""
    state: StatePlace = None
    """A file (or a folder, which gets one) in which sums, alarms and the budget outlive restarts;
    the processes of a machine that name the same one share them. Processes of several machines
    share a Redis server instead ('redis://host:6379/0', with TLS 'rediss://...'). None: each
    process has its own, for its lifetime."""
    content: ContentSettings = Field(default_factory=ContentSettings)
    send_to: SecretStr | None = None
    """Where finished, redacted answers are put for `ragmonitor worker` to score: a Redis server
    ('redis://host:6379/0', with TLS 'rediss://...'), or a worker of this machine that its processes
    share ('unix:/run/ragmonitor.sock'). None: as `worker` says."""
    worker: Literal["thread", "process"] | None = None
    """Where answers are scored and exported: on a thread of the application, or in a process that
    the monitor starts, `ragmonitor worker`. None: in a process where a model judges, which takes
    seconds to import, else on a thread. What a worker cannot import, such as a judge that is an
    object of `__main__`, keeps the work on a thread; the log says so."""
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
        values: dict[str, Any] = {}
        for (*groups, name), value in (_from_file() | _from_variables() | _by_path(named)).items():
            place = values.setdefault(groups[0], {}) if groups else values
            place[name] = value
        return cls(**values)


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
    def description(self) -> str:
        """What it is, for people: the text below it in this file."""
        return _descriptions()[self.path]

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
_PATHS: dict[str, OptionPath] = {each.name: each.path for each in OPTIONS}
_PATHS |= {name: (name,) for name in GROUPS}


@cache
def _descriptions() -> dict[OptionPath, str]:
    # By pydantic itself they would cost each import of this module some milliseconds.
    places: dict[str, OptionPath] = {group.__name__: (name,) for name, group in GROUPS.items()}
    return {
        (*places.get(model.name, ()), ast.unparse(field.target)): " ".join(
            ast.literal_eval(text.value).split()
        )
        for model in ast.parse(inspect.getsource(sys.modules[__name__])).body
        if isinstance(model, ast.ClassDef)
        for field, text in pairwise(model.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def sources() -> dict[OptionPath, str]:
    """Return where the options that are set come from: `variable` or `file`."""
    return dict.fromkeys(_from_file(), "file") | dict.fromkeys(_from_variables(), "variable")


# --- the sources ---------------------------------------------------------------------------------


def _by_path(values: Mapping[str, Any]) -> dict[OptionPath, Any]:
    """Return values by the paths of their options: of a group, a mapping or its short form.

    Raises:
        SettingsError: The value in a group's place is none of these.
    """
    paths: dict[OptionPath, Any] = {}
    for name, value in values.items():
        group, inner = GROUPS.get(name), value
        if group is None:
            paths[(name,)] = value
            continue
        if isinstance(value, group):
            inner = {option: getattr(value, option) for option in value.model_fields_set}
        elif isinstance(value, Group):
            raise SettingsError(f"{name} takes {group.__name__}, not {type(value).__name__}")
        elif not isinstance(value, Mapping) and (inner := group.in_short(value)) is None:
            raise SettingsError(f"{name} takes {group.__name__}(...), not {value!r}")
        paths |= {(name, option): each for option, each in inner.items()}
    return paths


def _from_file() -> dict[OptionPath, Any]:
    """Return the options of the file. Raises `SettingsError`: it cannot be read."""
    try:
        # Editors of Windows put a mark of the encoding first, which is no TOML.
        tables = tomllib.loads(Path(FILE).read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{FILE}: {error}") from error
    values = tables.pop(TABLE, {})
    if tables or not isinstance(values, dict):
        raise SettingsError(f"{FILE}: options stand in [{TABLE}], or in [{TABLE}.judge] and others")
    return _by_path(values)


def _from_variables() -> dict[OptionPath, Any]:
    """Return the options of the variables; empty variables count as not set.

    Raises:
        SettingsError: A variable is like an option's and is none.
    """
    values: dict[OptionPath, Any] = {}
    # By name: the short form of a group comes before its options, which win.
    for variable, written in sorted(os.environ.items()):
        # Files of variables end lines with a blank, or as Windows does.
        value = encodable(written).strip()
        if not variable.startswith(PREFIX) or not value or _is_of_kubernetes(variable, value):
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        if path in _PATHS.values():
            values |= {path: value} if path[1:] else _by_path({path[0]: value})
        elif meant := _meant(path):
            raise SettingsError(f"unknown variable {variable}; did you mean {_variable(meant)}?")
        else:
            logger.warning("ragmonitor: variable %s is no setting and is not heeded", variable)
    return values


def _is_of_kubernetes(variable: str, value: str) -> bool:
    """Return whether a service that Kubernetes calls `ragmonitor...` put the variable there."""
    is_port = variable.endswith("_PORT") and not variable.endswith("_SERVICE_PORT")
    return bool(_OF_KUBERNETES.search(variable)) and (not is_port or "://" in value)


# --- wrong names ---------------------------------------------------------------------------------


def _meant(path: OptionPath) -> OptionPath | None:
    """Return the option whose name, or the last part of it, is most like a misspelt one."""
    known = {each.path[-1]: each.path for each in OPTIONS} | _PATHS
    near = (nearest(name, known, cutoff=_SIMILAR) for name in (".".join(path), path[-1], path[0]))
    return next((known[name] for name in near if name), None)


def _readable(error: ValidationError, model: type[Group]) -> str:
    place = next((name for name, group in GROUPS.items() if group is model), "")
    lines = []
    for problem in error.errors():
        path = tuple(str(part) for part in (place, *problem["loc"]) if part)
        name, message = ".".join(path), problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            inner = problem["input"]  # a group that there is none of
            meant = _meant((*path, *inner) if isinstance(inner, Mapping) else path)
            hint = f"; did you mean {'.'.join(meant)}?" if meant else ""
            lines.append(f"unknown option {name}{hint}")
        else:
            lines.append(f"{name}: {message}" if name else message)
    return "; ".join(lines)
