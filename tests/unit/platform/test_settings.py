"""A setting that cannot be is told in one line that names its variable, never with its value."""

import os

import pytest
from typer.testing import CliRunner

from rft.core.bad_settings import BadSetting
from rft.platform.cli.app import app
from rft.platform.settings import settings, settings_warnings


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("RFT_BASE_MODELS", "{oops", "it is not JSON"),
        ("RFT_BASE_MODELS", '{"tiny": 5}', "(at 'tiny')"),
        ("RFT_BASE_MODELS", '{"tiny": {"chat_format": "auto"}}', "(at 'tiny.path')"),
        ("RFT_BASE_MODELS", "[]", "valid dictionary"),
        ("RFT_TRAIN_SLOTS", "many", "valid integer"),
        ("RFT_TRAIN_SLOTS", "0", "greater than or equal to 1"),
        ("RFT_ALLOW_CIDRS", "10.0.0.0/8", "it is not JSON"),
        ("RFT_ALLOW_CIDRS", '["s3cret"]', "(at '0"),
        ("RFT_PORT", "99999", "65535"),
        ("RFT_LEASE_TTL_S", "-1", "greater than 0"),
        ("RFT_SESSION_MAX_S", "0", "greater than 0"),
        ("RFT_DEVICES", "s3cret", "is none of `cpu:2`"),
        ("RFT_LOG_LEVEL", "s3cret", "it is none of DEBUG, INFO"),
        ("RFT_ENGINE", "s3cret", "it must be transformers, vllm, or package.module:factory"),
        ("RFT_HOLD_EXCLUDED_SHARE", "25", "less than or equal to 1"),
        ("RFT_TOOL_TIMEOUT_S", "nan", "finite number"),
        ("RFT_LEARNING_RATE", "-1e-3", "greater than 0"),
        ("DATABASE_URL", "postgresql+asyncpg://rft:s3cret@db.internal/rft", "must begin with postgresql://"),
        ("DATABASE_URL", "postgresql://rft:p@ss#s3cret@127.0.0.1/rft", "must be percent-encoded"),
        ("BROKER_URL", "http://:s3cret@127.0.0.1:1", "must begin with redis://"),
    ],
)
@pytest.mark.parametrize("command", [("doctor",), ("up",), ("keys", "list"), ("secrets", "show"), ("jobs", "list")])
def test_every_command_says_which_variable_is_wrong(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], variable: str, value: str, message: str
) -> None:
    for name in ("RFT_BASE_URL", "RFT_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    settings.cache_clear()
    done = CliRunner().invoke(app, command)
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stderr.count("\n"), done.stdout) == (1, 1, "")
    assert done.stderr.startswith(f"rft: {variable} is wrong")
    assert message in done.stderr
    assert "s3cret" not in done.stderr
    settings.cache_clear()


def test_all_that_is_wrong_is_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFT_TRAIN_SLOTS", "many")
    monkeypatch.setenv("RFT_PORT", "-1")
    settings.cache_clear()
    with pytest.raises(BadSetting, match=r"RFT_PORT is wrong.*; RFT_TRAIN_SLOTS is wrong"):
        settings()
    settings.cache_clear()


def test_variables_that_are_no_settings_are_told_of_with_what_may_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RFT_")]:
        monkeypatch.delenv(name)
    for name in ("RFT_TRAIN_SLOT", "RFT_NOTHING_LIKE_IT", "RFT_PORT", "RFT_API_KEY", "RFT_DATABASE_URL"):
        monkeypatch.setenv(name, "1")
    assert settings_warnings() == [
        "RFT_NOTHING_LIKE_IT is no setting",
        "RFT_TRAIN_SLOT is no setting; did you mean RFT_TRAIN_SLOTS?",
    ]
