"""How a vLLM server is started: its flags and its environment, each for a reason that stands beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BASE_NAME = "base"
"""What our own servers call the base model."""
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_ADAPTERS_AT_ONCE = 4
"""One more than are ever sampled from at once, and one that is on its way."""
_ADAPTERS_KNOWN = 8
_SERVER_SIDE = Path(__file__).parent / "server_side"
"""All of ours that its interpreter finds."""
_NOT_FOR_IT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """One server of ours."""

    model: str
    port: int
    is_cpu: bool
    max_context_tokens: int | None = None
    """None: what the model allows."""
    lora_rank: int = 16
    """The largest rank of an adapter."""
    policy_versions: int = 2
    """Adapters that are sampled from at once at most."""
    requests_at_once: int = 256
    cpu_cache_gib: int = 1
    gpu_memory_share: float = 0.9
    knows_bfloat16: bool = True
    """Whether its GPU does."""
    can_sleep: bool = False
    """Whether it is to give its GPU's memory up on demand."""
    host: str = "127.0.0.1"


def held_rank(lora_rank: int) -> int:
    """The largest rank that a server holds where it has to hold this one: vLLM knows a few."""
    return next((rank for rank in _RANKS if rank >= lora_rank), lora_rank)


def adapters_at_once(policy_versions: int) -> int:
    """For how many a server makes room that is to sample from so many policy versions at once."""
    return max(_ADAPTERS_AT_ONCE, policy_versions)


def server_command(python: Path, options: ServerOptions) -> list[str]:
    """What is executed."""
    flags: dict[str, str | int | float | None] = {
        "--model": options.model,
        "--served-model-name": BASE_NAME,
        "--host": options.host,
        "--port": options.port,
        # The sampling fields of requests count, never the model's own defaults, and log-probabilities are those of the
        # distribution that was sampled from.
        "--generation-config": "vllm",
        "--logprobs-mode": "processed_logprobs",
        # Samples that have to fit a schema are held to it as those of the default engine are.
        "--structured-outputs-config": '{"backend": "guidance"}',
        "--enable-lora": None,
        "--max-loras": adapters_at_once(options.policy_versions),
        "--max-cpu-loras": max(_ADAPTERS_KNOWN, 2 * options.policy_versions),
        "--max-lora-rank": held_rank(options.lora_rank),
        "--max-num-seqs": options.requests_at_once,
        # vLLM's own key guards few of its paths, and lets pages of any origin in.
        "--middleware": "rft_server_key.KeyMiddleware",
        "--allowed-origins": "[]",
    }
    if options.max_context_tokens is not None:
        flags["--max-model-len"] = options.max_context_tokens
    if options.is_cpu:
        # As the trainer has it, so that their log-probabilities agree to the sixth digit; compiling brings nothing.
        flags |= {"--dtype": "float32", "--enforce-eager": None}
        # A prompt cut in two makes 0.31 rewind the generator of a request with a seed, which on a CPU ends the engine
        # ("CPU Generator does not use offset").
        flags |= {"--no-enable-chunked-prefill": None}
    else:
        # Updates have the base model in bfloat16, so that both compute with the same numbers. vLLM refuses it on GPUs
        # before Ampere; by itself it takes there what the model bears, float16 as a rule.
        dtype = "bfloat16" if options.knows_bfloat16 else "auto"
        flags |= {"--dtype": dtype, "--gpu-memory-utilization": options.gpu_memory_share}
        if options.can_sleep:  # A CPU has nothing to give up: there it only stops.
            flags["--enable-sleep-mode"] = None
    # `vllm serve` asks for a distribution named `vllm`, which the CPU build is not.
    return [str(python), "-m", "vllm.entrypoints.openai.api_server", *_written(flags)]


def server_environment(options: ServerOptions, *, api_key: str | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """What it sees: the key travels here, where a list of processes does not show it."""
    kept = {name: value for name, value in inherited.items() if name not in _NOT_FOR_IT}
    own = {
        "PYTHONPATH": str(_SERVER_SIDE),
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # Longer than any client keeps an idle connection: what it writes into one that is being closed is lost.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "60",
        "VLLM_CPU_KVCACHE_SPACE": str(options.cpu_cache_gib),
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONUNBUFFERED": "1",
        # `/sleep` and `/wake_up` are served in this mode alone.
        **({"VLLM_SERVER_DEV_MODE": "1"} if options.can_sleep else {}),
    }
    return {"HF_HUB_OFFLINE": "1", **kept, **own, **({} if api_key is None else {"VLLM_API_KEY": api_key})}


def _written(flags: Mapping[str, str | int | float | None]) -> Sequence[str]:
    return [part for flag, value in flags.items() for part in ((flag,) if value is None else (flag, str(value)))]
