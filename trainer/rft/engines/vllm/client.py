"""One vLLM server over HTTP: one exchange per call, nothing is retried here."""

from rft.core.errors import RftError
from rft.core.failure import FailureCode
from rft.egress.client import HttpClient
from rft.egress.endpoint import HeaderList, public_url, to_header_list
from rft.egress.guard import OPERATORS_OWN
from rft.egress.reply import AttemptFailure, SizeCaps
from rft.engines.vllm.wire import (
    LoadAdapter,
    ServedModel,
    UnloadAdapter,
    completion_body,
    error_message,
    read_models,
    read_sample,
    read_version,
)
from rft.rollouts.sampler import Sample, SampleRequest

_CAPS = SizeCaps(request_bytes=64 << 20, reply_bytes=256 << 20)
_CONTROL_S = 10.0
_LOAD_S = 300.0
"""An adapter of a large model, read from a shared disk."""
_SLEEP_S = 600.0
"""A large model's weights, copied to the host's memory or back."""
_OURS = frozenset({FailureCode.OVERSIZE_REQUEST, FailureCode.OVERSIZE_REPLY, FailureCode.BLOCKED_ADDRESS})
"""Failures that the same call would meet at every server."""


class ServerLost(RftError):
    """The server is gone, or does not answer as one that works; another one may."""


class ServerRefused(RftError):
    """The server works and refuses the call."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def open_http() -> HttpClient:
    """The connections of one event loop."""
    return HttpClient(OPERATORS_OWN, caps=_CAPS)


class ServerClient:
    """What a server is asked. Every call raises ServerLost and ServerRefused, and SamplerError for nonsense."""

    def __init__(self, url: str, http: HttpClient, *, api_key: str | None, sample_s: float) -> None:
        """`sample_s`: how long one turn may take."""
        self.name = public_url(url.rstrip("/"))
        self._url, self._http, self._sample_s = url.rstrip("/"), http, sample_s
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._headers: HeaderList = to_header_list(headers)

    async def sample(self, request: SampleRequest, model: str) -> Sample:
        """One turn, by the adapter or base model of this name. Cancelling it closes the connection: vLLM then stops."""
        return read_sample(await self._post("/v1/completions", completion_body(request, model), self._sample_s))

    async def check_health(self) -> None:
        """Whether its engine lives."""
        await self._send("GET", "/health", b"", _CONTROL_S)

    async def version(self) -> str:
        """Its release of vLLM."""
        return read_version(await self._send("GET", "/version", b"", _CONTROL_S))

    async def models(self) -> tuple[ServedModel, ...]:
        """The base model and all adapters."""
        return read_models(await self._send("GET", "/v1/models", b"", _CONTROL_S))

    async def load(self, name: str, directory: str) -> None:
        """Make an adapter known under a name."""
        body = LoadAdapter(lora_name=name, lora_path=directory)
        await self._post("/v1/load_lora_adapter", body.model_dump_json().encode(), _LOAD_S)

    async def unload(self, name: str) -> None:
        """Make it unknown; fine where it is."""
        body = UnloadAdapter(lora_name=name).model_dump_json().encode()
        try:
            await self._post("/v1/unload_lora_adapter", body, _CONTROL_S)
        except ServerRefused as refusal:
            if refusal.status != 404:
                raise

    async def sleep(self) -> None:
        """Let it move its weights to the host's memory and forget what it has cached. Nothing may be in flight."""
        await self._post("/sleep?level=1", b"", _SLEEP_S)

    async def wake_up(self) -> None:
        """Let it take its memory back."""
        await self._post("/wake_up", b"", _SLEEP_S)

    async def _post(self, path: str, body: bytes, timeout_s: float) -> bytes:
        return await self._send("POST", path, body, timeout_s)

    async def _send(self, method: str, path: str, body: bytes, timeout_s: float) -> bytes:
        reply = await self._http.ask(method, self._url + path, body, headers=self._headers, timeout_s=timeout_s)
        if isinstance(reply, AttemptFailure):
            kind = ServerRefused if reply.code in _OURS else ServerLost
            raise kind(f"vLLM server {self.name} {reply.message}")
        if 200 <= reply.status <= 299:
            return reply.body
        message = f"vLLM server {self.name} answered {reply.status}: {error_message(reply.body)}"
        if reply.status >= 500:
            raise ServerLost(message)
        raise ServerRefused(message, reply.status)
