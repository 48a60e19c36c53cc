"""A look at a customer's URL before a job begins: is anybody there, and is there a route? It changes nothing there."""

from collections.abc import Mapping
from http import HTTPStatus

from rft.core.failure import Failure, FailureCode, Stage
from rft.egress.classify import status_phrase
from rft.egress.client import HttpClient
from rft.egress.endpoint import header_problem, public_url, to_header_list
from rft.egress.guard import AddressPolicy
from rft.egress.redaction import redact_secrets_of
from rft.egress.reply import AttemptFailure, Reply

_NOTHING_HERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})


async def probe(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 5.0,
    policy: AddressPolicy | None = None,
    stage: Stage = Stage.TOOL,
    name: str | None = None,
) -> Failure | None:
    """Why calls may fail at a URL; None where nothing speaks against it.

    Asked is with OPTIONS, which by its definition does nothing at the server. `endpoint_not_found` is a guess: a server
    may answer so to all but POST. Every other code says that nobody answered.
    """
    headers = headers or {}
    problem = header_problem(headers)
    if problem is not None:
        return Failure(stage=stage, code=FailureCode.BLOCKED_ADDRESS, message=problem, endpoint=name, attempts=0)
    async with HttpClient(policy, connect_timeout_s=timeout_s) as client:
        outcome = await client.options(url, headers=to_header_list(headers), timeout_s=timeout_s)
    against = _problem(outcome)
    if against is None:
        return None
    message = redact_secrets_of(f"{public_url(url)} {against.message}", headers, url)
    return Failure(stage=stage, code=against.code, message=message, endpoint=name, status=against.status)


def _problem(outcome: Reply | AttemptFailure) -> AttemptFailure | None:
    if isinstance(outcome, AttemptFailure):
        return outcome
    if outcome.status in _NOTHING_HERE:
        message = f"answered {status_phrase(outcome.status)} to OPTIONS"
        return AttemptFailure(FailureCode.ENDPOINT_NOT_FOUND, message, status=outcome.status)
    allowed = [method.strip().upper() for method in outcome.headers.get("allow", "").split(",")]
    if any(allowed) and "POST" not in allowed:
        message = f"takes {', '.join(sorted(filter(None, allowed)))} and no POST"
        return AttemptFailure(FailureCode.ENDPOINT_NOT_FOUND, message, status=outcome.status)
    return None
