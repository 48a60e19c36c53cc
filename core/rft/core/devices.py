"""Which devices of a host train and which sample, as an operator writes it: `cpu:2`, or `train=0,1 vllm=2,3`. GPUs
that are named for both, as in `train=0 vllm=0`, train and sample in turns.

Several trainers at once have devices of their own, `;` between: `train=0 vllm=1; train=2 vllm=3`.
"""

import re
from collections.abc import Mapping, MutableMapping
from typing import Annotated

from pydantic import Field

from rft.core.base import Record

_CPU = re.compile(r"cpu:([1-9]\d{0,2})")
_GPUS = re.compile(r"train=(\d+(?:,\d+)*)(?: +vllm=(\d+(?:,\d+)*))?")
SPELLING = (
    "`cpu:2` (so many ranks on the CPU), `train=0,1` (one rank on each of these GPUs), `train=0,1 vllm=2,3`, or"
    " `train=0 vllm=0` (in turns); of several trainers at once, `train=0 vllm=1; train=2 vllm=3`"
)


VISIBLE = "CUDA_VISIBLE_DEVICES"
"""What tells CUDA which GPUs a process sees."""
_HIDDEN = "RFT_HIDDEN_GPUS"
"""What stood there before they were hidden, where any could be seen; empty: nothing did, and all could."""


class Devices(Record):
    """What a run's ranks compute on. GPUs are numbered as `nvidia-smi` numbers them."""

    cpu_ranks: Annotated[int, Field(ge=0)] = 0
    """Ranks on the CPU; 0: they are on GPUs."""
    train: tuple[int, ...] = ()
    """GPUs that train, one rank on each."""
    vllm: tuple[int, ...] = ()
    """GPUs that vLLM servers of the run's own sample on, one server on each; none: they are as without this setting."""

    @property
    def ranks(self) -> int:
        """How many processes train."""
        return self.cpu_ranks or len(self.train)

    @property
    def take_turns(self) -> bool:
        """Whether the GPUs that train are those that sample."""
        return bool(self.vllm) and self.vllm == self.train


def parse_devices(text: str) -> tuple[Devices, ...]:
    """Of each trainer that runs at once. Raises ValueError, in words for whoever wrote it."""
    devices = tuple(_parse_one(part) for part in text.split(";"))
    gpus = [number for one in devices for number in (one.train if one.take_turns else (*one.train, *one.vllm))]
    if twice := sorted({number for number in gpus if gpus.count(number) > 1}):
        raise ValueError(f"GPU {twice[0]} is named twice: each is one process's, or all that train sample, too")
    return devices


def only_gpu(number: int) -> dict[str, str]:
    """What lets a process see this GPU alone: CUDA itself would number unlike GPUs by their speed."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", VISIBLE: str(number)}


def hide_gpus(environment: MutableMapping[str, str]) -> None:
    """From a process that computes on the CPU; what it starts can see them again."""
    if environment.get(VISIBLE) != "":
        environment[_HIDDEN] = environment.get(VISIBLE, "")
    environment[VISIBLE] = ""


def with_hidden_gpus(environment: Mapping[str, str]) -> dict[str, str]:
    """The same for a process that may see what was hidden, if anything was."""
    shown = dict(environment)
    hidden = shown.pop(_HIDDEN, None)
    if hidden is not None and shown.get(VISIBLE) == "":
        del shown[VISIBLE]
        shown |= {VISIBLE: hidden} if hidden else {}
    return shown


def _parse_one(text: str) -> Devices:
    if (cpu := _CPU.fullmatch(text.strip())) is not None:
        return Devices(cpu_ranks=int(cpu[1]))
    if (gpus := _GPUS.fullmatch(text.strip())) is None:
        raise ValueError(f"it is none of {SPELLING}")
    train, vllm = (tuple(int(number) for number in (part or "").split(",") if number) for part in gpus.groups())
    return Devices(train=train, vllm=vllm)
