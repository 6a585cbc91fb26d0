"""One frozen settings record from four sources."""

import typing

import pytest

from ragmonitor.errors import SettingsError
from ragmonitor.settings import Options, Settings


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)


def test_arguments_win_over_variables_over_file_over_defaults(monkeypatch, tmp_path):
    """Each source in its order."""
    (tmp_path / "ragmonitor.toml").write_text(
        'service = "file"\njudge_rate = 0.3\nqueue_size = 7\n', encoding="utf-8"
    )
    monkeypatch.setenv("RAGMONITOR_JUDGE_RATE", "0.4")
    monkeypatch.setenv("RAGMONITOR_SERVICE", "variable")
    found = Settings.load(service="argument")
    assert (found.service, found.judge_rate, found.queue_size) == ("argument", 0.4, 7)
    assert found.prometheus_port == 9464


def test_the_service_is_opentelemetry_s_by_default(monkeypatch):
    """OTEL_SERVICE_NAME is asked before a name is made up."""
    assert Settings.load().service == "rag"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "support-bot")
    assert Settings.load().service == "support-bot"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"judge": "openai/m"},
            "set budget_usd_per_day, budget_tokens_per_day or budget_calls_per_day",
        ),
        ({"budget_calls_per_hour": 1, "budget_tokens_per_day": 1}, "one budget"),
        ({"budget_calls_per_day": 0}, "budget_calls_per_day"),
        ({"judge": "m", "budget_usd_per_day": 0}, "budget_usd_per_day"),
        ({"budget_usd_per_day": 1, "budget_tokens_per_day": 1}, "one budget"),
        ({"budget_usd_per_hour": 1, "budget_tokens_per_day": 1}, "one budget"),
        ({"judge_fallbacks": "openai/m"}, "has no budget"),
        (
            {"judge": "m", "second_judge": "m", "budget_usd_per_day": 1},
            "m is named twice among judge, judge_fallbacks and second_judge",
        ),
        ({"judge_rate": 1.5}, "judge_rate"),
        ({"juge": "m"}, "did you mean judge"),
        ({"prometheus_port": 70_000}, "prometheus_port"),
        ({"content": "some"}, "content"),
        ({"content_hash_key": "short"}, "content_hash_key"),
        ({"span_bytes_most": 100}, "span_bytes_most"),
        ({"phoenix_url": "localhost:6006"}, "phoenix_url: an address begins with http"),
        ({"phoenix_url": "http://h:6006/v1/traces"}, "without the path of an API"),
        ({"phoenix_api_key": "k"}, "without phoenix_url"),
        ({"phoenix_url": "http://h", "traces": False}, "needs traces=True"),
        ({"langfuse_url": "http://h"}, "set langfuse_public_key and langfuse_secret_key"),
        ({"langfuse_url": "http://h", "langfuse_public_key": "p"}, "set langfuse_secret_key"),
        ({"langfuse_public_key": "p"}, "without langfuse_url"),
    ],
)
def test_a_bad_option_says_which_and_what_to_do(options, message):
    """One error, before anything runs."""
    with pytest.raises(SettingsError, match=message):
        Settings.load(**options)


def test_a_misspelt_variable_is_an_error(monkeypatch):
    """A setting that is silently ignored is a setting that is believed."""
    monkeypatch.setenv("RAGMONITOR_JUDGE_RAET", "0.1")
    with pytest.raises(SettingsError, match="RAGMONITOR_JUDGE_RATE"):
        Settings.load()


@pytest.mark.parametrize(
    "variable",
    ["RAGMONITOR_SERVICE_HOST", "RAGMONITOR_PORT", "RAGMONITOR_PORT_9464_TCP_ADDR"],
)
def test_what_kubernetes_injects_is_no_setting(monkeypatch, caplog, variable):
    """A service of that name puts such variables into every container of its namespace."""
    monkeypatch.setenv(variable, "10.0.0.1")
    assert Settings.load(service="x").service == "x"
    assert caplog.records == []


def test_a_variable_like_no_setting_is_warned_of(monkeypatch, caplog):
    """It may be somebody else's; an application does not fail for it."""
    monkeypatch.setenv("RAGMONITOR_COLOUR", "blue")
    assert Settings.load(service="x").service == "x"
    assert "RAGMONITOR_COLOUR" in caplog.text


def test_a_broken_file_is_an_error(tmp_path):
    """TOML that does not parse is named."""
    (tmp_path / "ragmonitor.toml").write_text("service = ", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"ragmonitor\.toml"):
        Settings.load()


def test_keys_are_not_shown():
    """Neither in a log of the settings nor in an error's traceback."""
    found = Settings.load(phoenix_url="http://h", phoenix_api_key="hush")
    assert "hush" not in f"{found!r} {found}"


def test_settings_do_not_change():
    """Frozen: what was checked when built stays true."""
    with pytest.raises(ValueError, match="frozen"):
        Settings.load().service = "other"


def test_a_list_in_a_variable_is_comma_separated(monkeypatch):
    """RAGMONITOR_EVALUATORS=a,b as people write it."""
    monkeypatch.setenv("RAGMONITOR_EVALUATORS", "faithfulness,answer_relevancy")
    assert Settings.load().evaluators == ("faithfulness", "answer_relevancy")


def test_every_setting_is_an_option_of_monitor():
    """The keyword arguments are the fields, by name."""
    options = set(typing.get_type_hints(Options))
    assert options | {"service", "judge"} == set(Settings.model_fields)


def test_redaction_is_switched_off_by_a_word_in_a_variable(monkeypatch):
    """A variable that is empty counts as not set."""
    assert Settings.load().redaction == ("secrets",)
    monkeypatch.setenv("RAGMONITOR_REDACTION", "none")
    assert Settings.load().redaction == ()


def test_the_key_of_hashes_is_not_printed():
    """Settings are logged and shown; the key would undo the hashes."""
    found = Settings.load(content_hash_key="0123456789abcdef")
    assert found.hash_key == b"0123456789abcdef"
    assert "0123456789abcdef" not in repr(found)


def test_personal_entities_are_those_of_the_redaction():
    """The default is written twice, for settings know no stage."""
    from ragmonitor.redaction.personal import DEFAULT_ENTITIES

    assert Settings.load().personal_entities == DEFAULT_ENTITIES


def test_an_hour_s_budget_is_one():
    """Of the same unit it may stand beside the day's, or alone."""
    both = Settings.load(judge="m", budget_usd_per_hour=1, budget_usd_per_day=5)
    assert (both.budget_unit, both.budget) == ("usd", (5, 1))
    alone = Settings.load(judge="m", budget_tokens_per_hour=1000)
    assert (alone.budget_unit, alone.budget) == ("tokens", (None, 1000))


def test_a_budget_may_count_calls():
    """For judges without a price."""
    found = Settings.load(judge="m", budget_calls_per_day=500, budget_calls_per_hour=60)
    assert (found.budget_unit, found.budget) == ("calls", (500, 60))


def test_fallbacks_in_a_variable_are_separated_by_commas(monkeypatch):
    """In their order; addresses and all."""
    monkeypatch.setenv("RAGMONITOR_JUDGE_FALLBACKS", "a/b, c@http://h:1/v1")
    found = Settings.load(judge="m", budget_usd_per_day=1)
    assert found.judge_fallbacks == ("a/b", "c@http://h:1/v1")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.05, {"hallucination": 0.05}),
        ("0.05", {"hallucination": 0.05}),
        ("hallucination=0.05, faithfulness=0.9", {"hallucination": 0.05, "faithfulness": 0.9}),
        ({"refusal": 0.3}, {"refusal": 0.3}),
    ],
)
def test_what_is_tolerated_is_told_by_signal(given, expected):
    """A bare number is the hallucination rate; in a variable it is one line."""
    assert Settings.load(tolerate=given).tolerate == expected


@pytest.mark.parametrize("given", ["2", "hallucination=", "hallucination=often", 0, {"refusal": 1}])
def test_what_cannot_be_tolerated_is_refused(given):
    """A share lies between 0 and 1."""
    with pytest.raises(SettingsError, match="tolerate"):
        Settings.load(tolerate=given)
