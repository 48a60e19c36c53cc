"""The release of vLLM that the platform works with. A newer one is taken by changing this and running its tests."""

from enum import StrEnum

VERSION = "0.31.0"


class Device(StrEnum):
    """What vLLM computes on."""

    CPU = "cpu"
    GPU = "gpu"
