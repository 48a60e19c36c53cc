"""A look at a provider before it is registered: whether it is there, and whether it takes the key."""

from http import HTTPStatus

from rft.core.chat_completion import api_url, as_object, parse_object
from rft.core.failure import FailureCode
from rft.egress.client import HttpClient
from rft.egress.endpoint import public_url, to_header_list
from rft.egress.guard import AddressPolicy
from rft.egress.redaction import redact, secrets_of
from rft.egress.reply import AttemptFailure, Reply, SizeCaps
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings
from rft.rollouts.provider_policy import ProviderEndpoint, headers_of

_MAX_BYTES = 8 << 20
_SHOWN_CHARS = 300


async def probed_models(provider: ProviderEndpoint, settings: Settings) -> list[str]:
    """Names of the models that it tells. Raises BadRequest that names the field to change."""
    url, headers = api_url(provider.base_url, "models"), headers_of(provider)
    timeout_s = settings.probe_timeout_s
    caps = SizeCaps(reply_bytes=_MAX_BYTES)
    async with HttpClient(AddressPolicy.of(settings.egress), caps=caps, connect_timeout_s=timeout_s) as client:
        outcome = await client.ask("GET", url, b"", headers=to_header_list(headers), timeout_s=timeout_s)
        failure = outcome if isinstance(outcome, AttemptFailure) else client.status_failure(outcome)
    hidden = secrets_of(headers, url)
    if failure is not None:
        raise _refusal(failure, redact(f"{public_url(url)} {failure.message}", hidden)[:_SHOWN_CHARS])
    assert isinstance(outcome, Reply)
    return [redact(name, hidden) for name in _names(outcome.body, public_url(url))]


def _refusal(failure: AttemptFailure, what: str) -> BadRequest:
    if failure.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return BadRequest(f"The provider does not take the key: {what}", param="api_key", code="provider_refused_key")
    advice = " Does base_url end where /chat/completions begins?" if failure.code is FailureCode.REJECTED else ""
    return BadRequest(
        f"The provider cannot be asked for its models: {what}.{advice}", param="base_url", code="provider_unreachable"
    )


def _names(body: bytes, where: str) -> list[str]:
    data = (parse_object(body) or {}).get("data")
    if not isinstance(data, list):
        raise BadRequest(
            f"{where} answers, but tells no list of models: it is no OpenAI-compatible API.",
            param="base_url",
            code="provider_unreachable",
        )
    names = (as_object(entry).get("id") for entry in data)
    return [name for name in names if isinstance(name, str)]
