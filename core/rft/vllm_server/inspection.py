"""What a server says of itself: for a person who sets it up."""

import json
from dataclasses import dataclass

from rft.egress.client import HttpClient
from rft.egress.endpoint import public_url, to_header_list
from rft.egress.guard import OPERATORS_OWN
from rft.egress.reply import Reply
from rft.vllm_server.release import VERSION

_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Inspected:
    """One server, in words."""

    server: str
    message: str
    is_fit: bool


async def inspect(url: str, api_key: str | None) -> Inspected:
    """Whether it is up, of the right release, and lets us in; and what it serves."""
    server, headers = public_url(url.rstrip("/")), to_header_list({"Authorization": f"Bearer {api_key or ''}"})
    async with HttpClient(OPERATORS_OWN) as http:

        async def ask(path: str) -> Reply | str:
            reply = await http.ask("GET", url.rstrip("/") + path, b"", headers=headers, timeout_s=_PATIENCE_S)
            if isinstance(reply, Reply) and reply.status == 200:
                return reply
            return f"{path} answered {reply.status}" if isinstance(reply, Reply) else reply.message

        answers = [await ask(path) for path in ("/health", "/version", "/v1/models")]
    problem = next((answer for answer in answers if isinstance(answer, str)), None)
    if problem is not None:
        return Inspected(server, problem, False)
    _, version, models = (answer.body for answer in answers if isinstance(answer, Reply))
    try:
        release = str(json.loads(version)["version"])
        served = json.loads(models)["data"]
        base = next(model for model in served if model.get("parent") is None)
        message = f"vLLM {release} serves {base['root']}, {base['max_model_len']} tokens, {len(served) - 1} adapters"
    except (ValueError, KeyError, TypeError, StopIteration):
        return Inspected(server, "does not answer as vLLM does", False)
    if release.partition("+")[0] != VERSION:
        return Inspected(server, f"{message}; this platform works with {VERSION}", False)
    return Inspected(server, message, True)
