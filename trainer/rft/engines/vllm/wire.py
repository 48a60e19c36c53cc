"""What goes to a vLLM server and what comes back, as bytes. vLLM 0.31, `/v1/completions`.

Every sampling field is sent: what is left out, the server fills in from the model's `generation_config.json`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from rft.core.base import JsonObject
from rft.core.errors import SamplerError
from rft.core.grammar import Grammar
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest

_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
_LEAST_TOP_P = 1e-6
"""vLLM refuses 0. The most likely of less than a million tokens has a larger share than this, so it is the only one."""


class _Reply(BaseModel):
    """A part of a reply; fields that we have no use for are skipped unread."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Logprobs(_Reply):
    token_logprobs: tuple[float, ...]


class _Choice(_Reply):
    token_ids: tuple[int, ...]
    logprobs: _Logprobs
    finish_reason: str


class _Completion(_Reply):
    choices: Annotated[tuple[_Choice, ...], Field(min_length=1, max_length=1)]


class ServedModel(_Reply):
    """A base model or an adapter, as a server lists it."""

    id: str
    root: str = ""
    """Where the server read it."""
    parent: str | None = None
    """The base model's id; None for the base model itself."""
    max_model_len: int | None = None


class _ModelList(_Reply):
    data: tuple[ServedModel, ...]


class _Version(_Reply):
    version: str


class _ErrorBody(_Reply):
    message: str


class _Error(_Reply):
    error: _ErrorBody


class LoadAdapter(BaseModel):
    """Body of `/v1/load_lora_adapter`; never in place."""

    lora_name: str
    lora_path: str
    load_inplace: Literal[False] = False


class UnloadAdapter(BaseModel):
    """Body of `/v1/unload_lora_adapter`."""

    lora_name: str


_completion = TypeAdapter(_Completion)
_models = TypeAdapter(_ModelList)
_version = TypeAdapter(_Version)
_error = TypeAdapter(_Error)


def completion_body(request: SampleRequest, model: str) -> bytes:
    """The request for one turn."""
    constraint = request.constraint
    return to_json(
        {
            "model": model,
            "prompt": request.prompt_ids,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            # Only the request's own stop tokens count, not what the model's configuration calls its end.
            "stop_token_ids": request.stop_token_ids,
            "ignore_eos": True,
            "stop": [],
            "top_p": max(request.top_p, _LEAST_TOP_P),
            "top_k": 0,
            "min_p": 0.0,
            "min_tokens": 0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "n": 1,
            "stream": False,
            "echo": False,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
            "add_special_tokens": False,
            **({} if constraint is None else {"structured_outputs": _structured_outputs(constraint.grammar)}),
        }
    )


def _structured_outputs(grammar: Grammar) -> JsonObject:
    return {"grammar": grammar} if isinstance(grammar, str) else {"json": grammar}


def read_sample(body: bytes) -> Sample:
    """The turn of a reply. Raises SamplerError for anything else."""
    try:
        choice = _completion.validate_json(body).choices[0]
    except ValidationError as error:
        raise SamplerError(f"the vLLM server answered something else than a completion: {error.errors()[0]}") from error
    reason = _REASONS.get(choice.finish_reason)
    if reason is None:
        raise SamplerError(f"the vLLM server broke the sample off ({choice.finish_reason})")
    return Sample(choice.token_ids, choice.logprobs.token_logprobs, reason)


def read_models(body: bytes) -> tuple[ServedModel, ...]:
    """What a server serves. Raises SamplerError."""
    try:
        return _models.validate_json(body).data
    except ValidationError as error:
        raise SamplerError("the server's list of models is not vLLM's") from error


def read_version(body: bytes) -> str:
    """The server's release. Raises SamplerError."""
    try:
        return _version.validate_json(body).version
    except ValidationError as error:
        raise SamplerError("the server does not tell its version as vLLM does") from error


def error_message(body: bytes) -> str:
    """What a refusal says."""
    try:
        return _error.validate_json(body).error.message
    except ValidationError:
        return " ".join(body.decode(errors="replace").split())[:300]
