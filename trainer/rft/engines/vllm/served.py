"""Whether a server is one for this run: its release, and what it serves. Pure."""

from collections.abc import Sequence
from pathlib import PurePath

from rft.engines.vllm.pool import ServerUnfit
from rft.engines.vllm.wire import ServedModel
from rft.vllm_server.release import VERSION


def judge_served(
    server: str, version: str, served: Sequence[ServedModel], *, base_model: str, max_context_tokens: int
) -> str:
    """What the server calls the base model. Raises ServerUnfit."""
    if version.partition("+")[0] != VERSION:
        raise ServerUnfit(
            f"vLLM server {server} runs release {version}; this platform works with {VERSION} (`rft engine install`)"
        )
    base = next((model for model in served if model.parent is None), None)
    if base is None:
        raise ServerUnfit(f"vLLM server {server} serves no model")
    if not _is_same(base, base_model):
        raise ServerUnfit(
            f"vLLM server {server} serves {base.root or base.id}, and this job trains {base_model}: a server has one "
            "base model, so jobs of different ones need servers of their own"
        )
    if base.max_model_len is not None and base.max_model_len < max_context_tokens:
        raise ServerUnfit(
            f"vLLM server {server} holds {base.max_model_len} tokens, fewer than the {max_context_tokens} of this job: "
            "start it with a larger --max-model-len"
        )
    return base.id


def _is_same(served: ServedModel, base_model: str) -> bool:
    """By path, or, where server and trainer see another file system, by the last part of it."""
    return served.id == base_model or PurePath(served.root).name == PurePath(base_model).name
