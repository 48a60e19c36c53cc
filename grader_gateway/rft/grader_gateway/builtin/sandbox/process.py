"""Our end of the process of one python grader."""

from dataclasses import dataclass

from pydantic import JsonValue

from rft.grader_gateway.builtin.sandbox.child import ChildProcess
from rft.grader_gateway.builtin.sandbox.limits import patience_s

_START_S = 120.0
"""To import all that a source imports, on a busy machine."""
_GRACE_S = 10.0
"""The sandbox ends a grade in time by itself; beyond that it is broken."""
_MODULE = __name__.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class SandboxSetup:
    """What a sandbox is made for."""

    source: str
    timeout_s: float
    """For one grade, of its own time."""
    memory_bytes: int
    has_file_rules: bool = True
    """Whether the kernel's file rules are used where it has them; without, grades can open no file at all."""


class SandboxProcess(ChildProcess):
    """One process that grades one request after the other."""

    def __init__(self, setup: SandboxSetup) -> None:
        super().__init__(_MODULE)
        self._setup = setup

    def start(self) -> dict[str, JsonValue]:
        """What it says once it has imported what it needs. Raises SandboxLost."""
        setup = self._setup
        return self.ask(
            {
                "source": setup.source,
                "timeout_s": setup.timeout_s,
                "memory_bytes": setup.memory_bytes,
                "has_file_rules": setup.has_file_rules,
            },
            _START_S,
        )

    def grade(self, request: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Its verdict. Raises SandboxLost."""
        return self.ask(request, patience_s(self._setup.timeout_s) + _GRACE_S)
