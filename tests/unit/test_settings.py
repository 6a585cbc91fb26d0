"""One frozen settings record from four sources."""

import inspect

import pytest

import ragmonitor
from ragmonitor import Budget, JudgeSettings, ServerSettings
from ragmonitor.evaluators import table
from ragmonitor.pipeline.build import exporters_of
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.settings import OPTIONS, Settings
from ragmonitor.testing import ListExporter
from tests.support.stories import interaction


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)


@pytest.fixture
def written(tmp_path):
    """Return what writes the file."""

    def write(text):
        (tmp_path / "ragmonitor.toml").write_text(text, encoding="utf-8")

    return write


def test_arguments_win_over_variables_over_file_over_defaults(monkeypatch, written):
    """Each source in its order."""
    written('[ragmonitor]\nservice = "file"\nsample = 0.3\n[ragmonitor.capture]\nqueue_size = 7\n')
    monkeypatch.setenv("RAGMONITOR_SAMPLE", "0.4")
    monkeypatch.setenv("RAGMONITOR_SERVICE", "variable")
    found = Settings.load(service="argument")
    assert (found.service, found.sample.rate, found.capture.queue_size) == ("argument", 0.4, 7)
    assert found.server.port == 7247


def test_a_group_merges_option_by_option(monkeypatch, written):
    """What the constructor's group does not set, a variable may, else the file."""
    written('[ragmonitor]\njudge = "openai/file"\n[ragmonitor.budget]\nusd_per_hour = 1\n')
    monkeypatch.setenv("RAGMONITOR_JUDGE__TIMEOUT_S", "7")
    monkeypatch.setenv("RAGMONITOR_JUDGE__TOKENS_PER_CALL", "3000")
    found = Settings.load(judge=JudgeSettings(timeout_s=9), budget=Budget(usd_per_day=5))
    judge = found.judge
    assert (judge.model, judge.timeout_s, judge.tokens_per_call) == ("openai/file", 9, 3_000)
    assert found.budget.limits == (5, 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"content": "hashed"}, ("content", "policy", "hashed")),
        ({"alarms": ("refusal",)}, ("alarms", "signals", ("refusal",))),
        ({"server": False}, ("server", "enabled", False)),
        ({"sample": 0.5}, ("sample", "rate", 0.5)),
        ({"capture": {"queue_size": 5}}, ("capture", "queue_size", 5)),
    ],
)
def test_a_group_is_given_in_short(options, expected):
    """By the value of its first option, or as a mapping."""
    group, name, value = expected
    assert getattr(getattr(Settings.load(**options), group), name) == value


def test_the_service_is_opentelemetry_s_by_default(monkeypatch):
    """OTEL_SERVICE_NAME is asked before a name is made up."""
    assert Settings.load().service == "rag"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "support-bot")
    assert Settings.load().service == "support-bot"


def test_bytes_that_are_no_utf_8_are_replaced(monkeypatch):
    """A name of a service with them could not be a label of a series."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "caf\udce9")
    monkeypatch.setenv("RAGMONITOR_SERVICE_VERSION", "1.\udce9")
    found = Settings.load()
    assert (found.service, found.service_version) == ("caf?", "1.?")


def test_the_password_of_an_address_is_not_printed():
    """Neither of a judge's server, nor of an exporter's or a fallback's."""
    found = Settings.load(
        judge={
            "model": "openai/m",
            "api_base": "http://me:horse@judge/v1",
            "fallbacks": "openai/n@http://me:horse@other/v1",
        },
        budget="usd_per_day=1",
        exporters="phoenix:http://me:horse@phoenix:6006",
    )
    assert "horse" not in repr(found)
    assert "//***@judge/v1" in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": {"calls_per_hour": 1, "tokens_per_day": 1}}, "one budget"),
        ({"judge": "m", "budget": "usd_per_day=0"}, "budget.usd_per_day"),
        ({"budget": {"usd_per_day": 1, "tokens_per_day": 1}}, "one budget"),
        ({"judge": 5}, "judge.model: a judge is a model's name, or an object with identity"),
        ({"server": {"port": 70_000}}, "server.port"),
        ({"content": {"hash_key": "short"}}, "content.hash_key"),
        ({"capture": ServerSettings()}, "capture takes CaptureSettings, not ServerSettings"),
    ],
)
def test_a_bad_option_says_which_and_what_to_do(options, message):
    """One error, before anything runs."""
    with pytest.raises(SettingsError, match=message):
        Settings.load(**options)


def test_an_evaluator_is_given_as_itself():
    """As by its name; one that nobody registered is refused."""
    (entry,) = table.select(["faithfulness"])
    reports = ListExporter()
    with ragmonitor.Monitor(
        evaluators=[entry.evaluator, "refusal"], server=False, exporters=[reports]
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush()
    (report,) = reports.reports
    assert [e.evaluator.partition("@")[0] for e in report.evaluations] == [
        "faithfulness",
        "refusal",
    ]
    with pytest.raises(SettingsError, match="unknown evaluator"):
        ragmonitor.Monitor(evaluators=[lambda interaction, assessment: 1.0], server=False)


@pytest.mark.parametrize(
    ("exporters", "message"),
    [
        ("phoenix:localhost:6006", "an address begins with http"),
        ("phoenix:http://h:6006/v1/traces", "without the path of an API"),
        ("phoenix", "needs an address or a file"),
        ("phoenx:http://h", "did you mean phoenix:..."),
        ("langfuse:http://h", "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"),
    ],
)
def test_a_bad_exporter_says_what_to_do(monkeypatch, exporters, message):
    """When the monitor is built, not with the first report."""
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match=message):
        exporters_of(Settings.load(exporters=exporters), lambda reason, n: None)


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"juge": "m"}, "judge"),
        ({"judge_timeout_s": 3}, r"judge\.timeout_s"),
        ({"queue_size": 3}, r"capture\.queue_size"),
        ({"redact": str.upper}, r"content\.redaction"),
        ({"causes": {"prices": "m=1/2"}}, r"estimation\.prices"),
    ],
)
def test_a_misspelt_keyword_is_an_error(options, meant):
    """In a group as at the top, and where the group was forgotten."""
    with pytest.raises(SettingsError, match=rf"unknown option .*; did you mean {meant}\?"):
        Settings.load(**options)
    with pytest.raises(SettingsError, match=rf"did you mean {meant}\?"):
        ragmonitor.Monitor(**options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ragmonitor]\nsampel = 1", r"unknown option sampel; did you mean sample"),
        (
            "[ragmonitor]\njudge_timeout_s = 1",
            r"did you mean judge\.timeout_s\?",
        ),
        ("service = ", r"ragmonitor\.toml: "),
        ("service = " + "[" * 10_000, r"ragmonitor\.toml: "),
    ],
)
def test_a_wrong_file_is_an_error(written, text, message):
    """It is named, with what was meant."""
    written(text)
    with pytest.raises(SettingsError, match=message):
        Settings.load()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("RAGMONITOR_SAMPEL", "RAGMONITOR_SAMPLE"),
        ("RAGMONITOR_JUDGE__TIMEUOT_S", "RAGMONITOR_JUDGE__TIMEOUT_S"),
        ("RAGMONITOR_SERVR__TOKEN", "RAGMONITOR_SERVER__TOKEN"),
        ("RAGMONITOR_NOTIFY__URLS", "RAGMONITOR_ALARMS__NOTIFY"),
        ("RAGMONITOR_CAUSES__PRICES", "RAGMONITOR_ESTIMATION__PRICES"),
    ],
)
def test_a_misspelt_variable_is_an_error(monkeypatch, variable, meant):
    """A setting that is silently ignored is a setting that is believed."""
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingsError, match=rf"{variable}; did you mean {meant}\?"):
        Settings.load()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RAGMONITOR_SERVICE_HOST", "10.0.0.1"),
        ("RAGMONITOR_SERVICE_PORT", "7247"),
        ("RAGMONITOR_PORT", "tcp://10.0.0.1:7247"),
        ("RAGMONITOR_SERVER_PORT", "tcp://10.0.0.1:7247"),
        ("RAGMONITOR_PORT_7247_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_what_kubernetes_injects_is_no_setting(monkeypatch, caplog, variable, value):
    """A service of that name puts such variables into every container of its namespace."""
    monkeypatch.setenv(variable, value)
    assert Settings.load(service="x").service == "x"
    assert caplog.records == []


def test_monitor_s_keywords_are_the_settings():
    """By name and in order, before the whole of them; a monitor receives no spans."""
    keywords = [*inspect.signature(ragmonitor.Monitor.__init__).parameters][1:]
    fields = [name for name in Settings.model_fields if name != "receive"]
    assert keywords[: len(fields)] == fields
    assert keywords[len(fields) :] == ["settings", "unknown"]


def test_every_option_says_what_it_is():
    """In sentences; docs/settings.md prints them."""
    for option in OPTIONS:
        assert option.description.endswith((".", ")")), option.name


def test_redaction_is_switched_off_by_a_word_in_a_variable(monkeypatch):
    """A variable that is empty counts as not set."""
    assert Settings.load().content.redaction == ("secrets",)
    monkeypatch.setenv("RAGMONITOR_CONTENT__REDACTION", "none")
    assert Settings.load().content.redaction == ()
    monkeypatch.setenv("RAGMONITOR_CONTENT__REDACTION", "")
    assert Settings.load().content.redaction == ("secrets",)


def test_a_bad_key_is_not_printed():
    """An error of a secret does not show it."""
    with pytest.raises(SettingsError) as error:
        Settings.load(content={"hash_key": "too-short-key"})
    assert "too-short-key" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.05, {"hallucination": 0.05}),
        ("0.05", {"hallucination": 0.05}),
        ("hallucination=0.05, faithfulness=0.9", {"hallucination": 0.05, "faithfulness": 0.9}),
        ({"refusal": 0.3}, {"refusal": 0.3}),
    ],
)
def test_objectives_are_given_by_signal(given, expected):
    """A bare number is the hallucination rate; in a variable it is one line."""
    assert Settings.load(objectives=given).objectives == expected


@pytest.mark.parametrize(
    "given", ["2", "hallucination=", "hallucination=often", "0.05,0.9", 0, {"refusal": 1}]
)
def test_what_cannot_be_an_objective_is_refused(given):
    """A share lies between 0 and 1."""
    with pytest.raises(SettingsError, match="objectives"):
        Settings.load(objectives=given)


def test_a_tilde_is_the_home_folder(monkeypatch, tmp_path):
    """No shell replaces it in a file of settings, nor in Python."""
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings.load(
        state="~/state",
        exporters="jsonl:~/scores.jsonl",
    )
    (exporter,) = exporters_of(settings, lambda reason, n: None)
    assert settings.state == tmp_path / "state"
    assert exporter.path == tmp_path / "scores.jsonl"


def test_the_key_of_hashes_is_not_printed():
    """Settings are logged and shown; the key would undo the hashes."""
    found = Settings.load(content={"hash_key": "0123456789abcdef"})
    assert found.content.key == b"0123456789abcdef"
    assert "0123456789abcdef" not in repr(found)
