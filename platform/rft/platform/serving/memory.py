"""Whether a model fits beside what runs already: trainers come first."""

import json
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_RUNTIME_BYTES = 700 << 20
"""Of the process itself, with its tensor library."""
_HALF = ("float16", "bfloat16", "half")


def free_bytes(meminfo: Path = _MEMINFO) -> int | None:
    """What could be used without taking it from anybody; None where the system does not tell."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    found = next((line.split() for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found[1]) << 10


def taken_bytes(pid: int) -> int:
    """What a process alone has of this machine's memory by now; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    found = next((line.split() for line in lines if line.startswith("RssAnon:")), None)
    return 0 if found is None else int(found[1]) << 10


def needed_bytes(base_model: Path) -> int:
    """What a process that serves this model takes: its weights in single precision, and the process itself."""
    weights = sum(file.stat().st_size for file in base_model.glob("*.safetensors"))
    return _RUNTIME_BYTES + weights * (2 if _is_half_precision(base_model) else 1)


def _is_half_precision(base_model: Path) -> bool:
    try:
        config = json.loads((base_model / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and (config.get("dtype") or config.get("torch_dtype")) in _HALF
