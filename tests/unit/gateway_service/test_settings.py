"""A service is configured with the platform's own names, so that one environment file serves both."""

import pytest
from pydantic import SecretStr

from rft.gateway_service.settings import ServiceSettings
from rft.platform.settings import Settings


def test_names_and_defaults_are_the_platforms() -> None:
    platform = Settings.model_fields
    for name, field in ServiceSettings.model_fields.items():
        assert field.default == platform[name].default, name


def test_the_environment_is_read_and_the_token_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GATEWAY_TOKEN": "sesame-open",
        "ALLOW_CIDRS": '["10.1.0.0/16"]',
        "ALLOW_LOOPBACK": "0",
    }.items():
        monkeypatch.setenv(f"RFT_{name}", value)
    read = ServiceSettings()
    assert read.gateway_token == SecretStr("sesame-open")
    assert [str(network) for network in read.allow_cidrs] == ["10.1.0.0/16"]
    assert not read.allow_loopback
    assert "sesame" not in repr(read)
