"""What `RFT_DEVICES` needs of the rest of an installation."""

from pathlib import Path

from rft.core.devices import Devices, parse_devices
from rft.core.spec import Engine
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings
from rft.vllm_server.environment import chosen_python, is_for_cpu

CODE = "devices_not_usable"
STALENESS = "method.reinforcement.hyperparameters.max_staleness"
_GPUS = Path("/proc/driver/nvidia/gpus")
_OWN_GPU_SHARE = 0.9
"""What vLLM takes by itself of a GPU that nobody shares with it."""
_BESIDE_CHAT_SHARE = 0.5
"""The same less the server's that answers chat, which is on the host's first GPU."""


def to_devices(settings: Settings, slot: int) -> Devices | None:
    """What the run in one of the host's slots is told of them; what is on the CPU may be said once for all slots."""
    devices = _all_devices(settings)
    if not devices:
        return None
    return devices[slot] if slot < len(devices) else devices[-1]


def _all_devices(settings: Settings) -> tuple[Devices, ...]:
    """By slot; none where nothing is said of them."""
    return parse_devices(settings.devices) if settings.devices else ()


def gpu_memory_share(settings: Settings, slot: int) -> float | None:
    """Of a GPU for a job's vLLM server of our own: as set, or else all that is usual where training is elsewhere.

    None: the run works it out.
    """
    devices = to_devices(settings, slot)
    if settings.vllm_gpu_memory_share is not None or devices is None:
        return settings.vllm_gpu_memory_share
    if devices.cpu_ranks:  # All servers of such trainers are on the first GPU.
        return _BESIDE_CHAT_SHARE / settings.train_slots
    return _OWN_GPU_SHARE if devices.vllm and not devices.take_turns else None


def shares_processors(settings: Settings) -> bool:
    """Whether samples are computed where updates are, and not by servers elsewhere or on GPUs named for vLLM alone."""
    devices = _all_devices(settings)
    has_own = bool(devices) and all(one.vllm and not one.take_turns for one in devices)
    is_elsewhere = bool(settings.vllm_servers) or has_own
    return settings.engine != Engine.VLLM or not is_elsewhere


def take_gpu_of_chat(settings: Settings, gpus: int) -> bool:
    """Whether jobs take the GPU that the vLLM server answering chat is on, the first of so many, and nobody has said
    what each may have of it."""
    has_own = settings.engine == Engine.VLLM and not settings.vllm_servers
    if not gpus or not has_own or settings.vllm_gpu_memory_share is not None:
        return False
    if is_for_cpu(chosen_python(settings.vllm_python, settings.home)):
        return False
    devices = _all_devices(settings)
    return not devices or any(0 in (*one.train, *one.vllm) for one in devices)


def devices_problem(settings: Settings) -> str | None:
    """Why no job can have these devices, in words for the operator; None where nothing is amiss."""
    slots, problems = settings.train_slots, list[str]()
    devices = _all_devices(settings)
    has_own_servers = any(one.vllm for one in devices)
    if has_own_servers and settings.engine != Engine.VLLM:
        problems.append(
            f"it names GPUs for vLLM, and RFT_ENGINE is `{settings.engine}`, which samples inside the trainer's process"
        )
    if has_own_servers and settings.vllm_servers:
        problems.append("it names GPUs for vLLM servers of our own, and RFT_VLLM_SERVERS names others")
    if len(devices) not in (0, slots) and (len(devices) > 1 or any(one.train for one in devices)):
        trainers = "1 trainer" if len(devices) == 1 else f"{len(devices)} trainers"
        problems.append(f"it names the devices of {trainers} at once, and RFT_TRAIN_SLOTS is {slots}")
    return f"RFT_DEVICES is `{settings.devices}`, but {'; and '.join(problems)}." if problems else None


def take_turns(settings: Settings) -> bool:
    """Whether trainers of this host sample on the GPUs that they train on, one after the other."""
    return any(one.take_turns for one in _all_devices(settings))


def staleness_problem(settings: Settings, max_staleness: int | str | None) -> str | None:
    """Why a job cannot have this `max_staleness`, as ordered or as chosen; None where nothing is amiss."""
    if not take_turns(settings) or max_staleness in (0, "auto", None):
        return None
    return (
        f"Rollouts and updates take turns on one GPU here (RFT_DEVICES is `{settings.devices}`), so no rollout goes on"
        f" beside an update: `max_staleness` cannot be {max_staleness}, but 0 or `auto`."
    )


def shared_gpu_warning(settings: Settings, gpus: int) -> str | None:
    """Of a host with so many GPUs whose trainers would all take the first one; None where they do not."""
    if settings.devices or settings.train_slots < 2 or not gpus:
        return None
    return (
        f"RFT_TRAIN_SLOTS is {settings.train_slots}, and each of so many trainers at once takes the first of this"
        f" host's GPUs ({gpus} found): RFT_DEVICES gives each its own, such as `train=0; train=1`."
    )


def nvidia_gpus() -> int:
    """GPUs of this host as their driver tells of them."""
    return len(list(_GPUS.iterdir())) if _GPUS.is_dir() else 0


def refuse_unusable_devices(settings: Settings, max_staleness: int | str | None = None) -> None:
    """Raises BadRequest where the job, or every job, would fail."""
    if (problem := devices_problem(settings)) is not None:
        raise BadRequest(f"No job can run here: {problem}", code=CODE)
    if (problem := staleness_problem(settings, max_staleness)) is not None:
        raise BadRequest(problem, param=STALENESS, code=CODE)
