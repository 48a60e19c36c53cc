"""A service is configured with the platform's own names, so that one environment file serves both."""

import pytest
from pydantic import SecretStr

from rft.core.spec import RetryBudget
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.platform.settings import Settings


def test_names_and_defaults_are_the_platforms() -> None:
    platform = Settings.model_fields
    for name, field in ServiceSettings.model_fields.items():
        assert field.default == platform[name].default, name


async def test_the_size_caps_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFT_MAX_CALL_BYTES", "2000")
    monkeypatch.setenv("RFT_MAX_REPLY_BYTES", "3000")
    shared = SharedEgress(ServiceSettings())
    client = shared.client(
        shared.limits_of_job(), retry=RetryBudget(), signing_secrets=(), on_attempt=lambda attempt: None
    )
    assert (client.http.caps.request_bytes, client.http.caps.reply_bytes) == (2000, 3000)
    await shared.aclose()


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
