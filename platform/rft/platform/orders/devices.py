"""What `RFT_DEVICES` needs of the rest of an installation."""

from rft.core.devices import Devices, parse_devices
from rft.core.spec import Engine
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings

CODE = "devices_not_usable"
_OWN_GPU_SHARE = 0.9
"""What vLLM takes by itself of a GPU that nobody shares with it."""


def to_devices(settings: Settings) -> Devices | None:
    """What a run is told of them."""
    return parse_devices(settings.devices) if settings.devices else None


def gpu_memory_share(settings: Settings) -> float | None:
    """Of a GPU for a vLLM server of our own: as set, or else all that is usual where training has other GPUs.

    None: the run works it out.
    """
    devices = to_devices(settings)
    unset = _OWN_GPU_SHARE if devices is not None and devices.vllm else None
    return unset if settings.vllm_gpu_memory_share is None else settings.vllm_gpu_memory_share


def shares_processors(settings: Settings) -> bool:
    """Whether samples are computed where updates are, and not by servers elsewhere or on GPUs named for vLLM."""
    devices = to_devices(settings)
    is_elsewhere = bool(settings.vllm_servers) or (devices is not None and bool(devices.vllm))
    return settings.engine != Engine.VLLM or not is_elsewhere


def devices_problem(settings: Settings) -> str | None:
    """Why no job can have these devices, in words for the operator; None where nothing is amiss."""
    devices, problems = to_devices(settings), list[str]()
    if devices is None:
        return None
    if devices.vllm and settings.engine != Engine.VLLM:
        problems.append(
            f"it names GPUs for vLLM, and RFT_ENGINE is `{settings.engine}`, which samples inside the trainer's process"
        )
    if devices.vllm and settings.vllm_servers:
        problems.append("it names GPUs for vLLM servers of our own, and RFT_VLLM_SERVERS names others")
    if devices.train and settings.train_slots > 1:
        problems.append(
            f"RFT_TRAIN_SLOTS is {settings.train_slots}, and each of so many trainers at once would take the same GPUs"
        )
    return f"RFT_DEVICES is `{settings.devices}`, but {'; and '.join(problems)}." if problems else None


def refuse_unusable_devices(settings: Settings) -> None:
    """Raises BadRequest where every job would fail."""
    if (problem := devices_problem(settings)) is not None:
        raise BadRequest(f"No job can run here: {problem}", code=CODE)
