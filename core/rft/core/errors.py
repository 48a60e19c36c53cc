"""Python exceptions of our own. A failed rollout is not one of them: that is data (`failure`).

RftError
├── IllegalTransition    a job was asked to move where its state machine does not lead
├── GpuLost              a GPU or its driver broke while a run computed on it
├── SamplerError         the engine could not answer; blame: platform
├── RunAborted           a run stopped on purpose (signal); nothing is lost
├── RunFailed            a run cannot go on; the customer is told why
└── RunPaused            a run stops for something that is ours to mend
"""


class RftError(Exception):
    """Base of all our exceptions."""


class IllegalTransition(RftError):
    """A job cannot move from its current status to the one asked for."""


class SamplerError(RftError):
    """The sampler died or answered nonsense; whoever catches it blames the platform."""


class GpuLost(RftError):
    """What a GPU computes for this process is an error from now on; the run goes on from its last complete checkpoint
    with a new one."""


class RunAborted(RftError):
    """The run was told to stop; the last complete checkpoint is where it goes on."""


class RunFailed(RftError):
    """The run cannot go on; the customer is told why."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.param = code, param


class RunPaused(RftError):
    """The run stops for something that is ours to mend, and goes on from its last checkpoint when it is resumed."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.param = code, param
