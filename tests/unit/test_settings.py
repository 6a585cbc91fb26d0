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
        ({"judge": "openai/m"}, "set budget_usd_per_day or budget_tokens_per_day"),
        ({"judge": "m", "budget_usd_per_day": 0}, "budget_usd_per_day"),
        ({"budget_usd_per_day": 1, "budget_tokens_per_day": 1}, "one budget"),
        ({"judge_rate": 1.5}, "judge_rate"),
        ({"juge": "m"}, "did you mean judge"),
        ({"prometheus_port": 70_000}, "prometheus_port"),
        ({"content": "some"}, "content"),
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
