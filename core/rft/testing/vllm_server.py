"""A vLLM server without a model, for `rft.testing.loopback`: its wire, its adapters, and what kills a real one."""

import asyncio
import hashlib
import json
from array import array
from pathlib import Path
from random import Random
from typing import Any

from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall

BASE = "base"
COMPLETIONS = "/v1/completions"
LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
SLEEP, WAKE_UP = "/sleep", "/wake_up"


class ScriptedVllm(ScriptedEndpoint):
    """Random tokens that follow from model, prompt and seed. A subclass may play others back (`tokens_of`)."""

    def __init__(
        self, *, version: str, root: str = "/models/base", max_model_len: int = 4096, api_key: str | None = None,
        max_rank: int = 16, latency_s: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(latency_s=latency_s)
        self._version, self._root, self._max_model_len = version, root, max_model_len
        self._authorization = None if api_key is None else f"Bearer {api_key}"
        self._max_rank = max_rank
        self.adapters: dict[str, str] = {}
        """Directories by name."""
        self.is_dead = False
        """Health says so, and so does every sample."""
        self.unseen = 0
        """So many loads more find no directory, as on a shared disk that lags behind."""
        self.sampled: list[dict[str, Any]] = []
        """Bodies of the completions that were answered."""
        self.loses_next = ""
        """The path whose next call is answered with an error and does nothing."""
        self.can_sleep = True
        """Whether it was started so."""
        self._awake = asyncio.Event()
        self._awake.set()

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """As vLLM 0.31 does."""
        if self._authorization not in (None, call.headers.get("authorization")) and call.path.startswith("/v1/"):
            return _refusal(401, "Unauthorized")
        if self.is_dead and call.path in ("/health", COMPLETIONS):
            return _refusal(503 if call.path == "/health" else 500, "EngineCore encountered an issue")
        if call.path == self.loses_next:
            self.loses_next = ""
            return _refusal(502, "Bad Gateway")
        match call.path:
            case "/health":
                return HttpAnswer(200, b"")
            case "/version":
                return _json({"version": self._version})
            case "/v1/models":
                return _json({"object": "list", "data": self._models()})
            case "/v1/load_lora_adapter" | "/v1/unload_lora_adapter" | "/v1/completions":
                instead = await super().answer(call)
                if isinstance(instead, Fault):
                    return instead
                await self._awake.wait()  # As a real one's scheduler, which only begins again with `/wake_up`.
                return self._answer(call.path, json.loads(call.body))
            case "/sleep" | "/wake_up" if self.can_sleep:
                (self._awake.clear if call.path == SLEEP else self._awake.set)()
                return HttpAnswer(200, b"")
            case _:
                return _refusal(404, "Not Found")

    def tokens_of(self, body: dict[str, Any]) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities, before the cut at `max_tokens` and behind the first stop token."""
        known = hashlib.sha256(array("Q", body["prompt"]).tobytes() + f"{body['model']} {body['seed']}".encode())
        chance = Random(known.digest())
        ids = [chance.randrange(10, 500) for _ in range(chance.randint(1, 12))] + body["stop_token_ids"][:1]
        return ids, [-chance.random() for _ in ids]

    def _models(self) -> list[dict[str, Any]]:
        base = {"id": BASE, "root": self._root, "parent": None, "max_model_len": self._max_model_len}
        adapters = ({"id": name, "root": path, "parent": BASE} for name, path in self.adapters.items())
        return [base, *adapters]

    def _answer(self, path: str, body: dict[str, Any]) -> HttpAnswer:
        if path == LOAD:
            return self._load(body)
        if path == UNLOAD:
            if self.adapters.pop(body["lora_name"], None) is None:
                return _refusal(404, f"The lora adapter '{body['lora_name']}' cannot be found.")
            return HttpAnswer(200, b"Success")
        return self._complete(body)

    def _load(self, body: dict[str, Any]) -> HttpAnswer:
        name, directory = body["lora_name"], Path(body["lora_path"])
        if name in self.adapters:
            return _refusal(400, f"The lora adapter '{name}' has already been loaded.")
        if self.unseen or not (directory / "adapter_config.json").exists():
            self.unseen = max(0, self.unseen - 1)
            return _refusal(404, f"Loading lora {name} failed: No adapter found for {directory}")
        rank = json.loads((directory / "adapter_config.json").read_text()).get("r", 1)
        if rank > self._max_rank:
            return _refusal(400, f"LoRA rank {rank} is greater than max_lora_rank {self._max_rank}.")
        self.adapters[name] = str(directory)
        return HttpAnswer(200, b"Success")

    def _complete(self, body: dict[str, Any]) -> HttpAnswer:
        model = body["model"]
        if model != BASE and model not in self.adapters:
            return _refusal(404, f"The model `{model}` does not exist.")
        if model != BASE and not Path(self.adapters[model]).exists():
            self.is_dead = True  # What a deleted directory does to a real one as soon as it is read again.
            return _refusal(500, "EngineDeadError")
        if len(body["prompt"]) + body["max_tokens"] > self._max_model_len:
            return _refusal(400, "max_tokens is too large")
        self.sampled.append(body)
        ids, logprobs = self.tokens_of(body)
        is_stopped = len(ids) <= body["max_tokens"] and ids[-1] in body["stop_token_ids"]
        ids, logprobs = ids[: body["max_tokens"]], logprobs[: body["max_tokens"]]
        choice = {
            "index": 0,
            "text": "",
            "logprobs": {"token_logprobs": logprobs, "tokens": [str(token) for token in ids]},
            "finish_reason": "stop" if is_stopped else "length",
            "token_ids": ids,
            "prompt_token_ids": body["prompt"],
        }
        return _json({"id": "cmpl-1", "object": "text_completion", "model": model, "choices": [choice]})


def _json(body: object) -> HttpAnswer:
    return HttpAnswer(200, json.dumps(body).encode())


def _refusal(status: int, message: str) -> HttpAnswer:
    error = {"message": message, "type": "Error", "param": None, "code": status}
    return HttpAnswer(status, json.dumps({"error": error}).encode())
