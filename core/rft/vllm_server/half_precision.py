"""In which half precision this host's GPUs compute."""

import subprocess

_ASK = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
_PATIENCE_S = 30.0
_FIRST_WITH_BFLOAT16 = 8.0
"""Compute capability: Ampere."""


def know_bfloat16() -> bool:
    """Whether all of them do in bfloat16, as far as their driver tells."""
    try:
        told = subprocess.run(_ASK, capture_output=True, check=True, text=True, timeout=_PATIENCE_S).stdout
        return all(float(capability) >= _FIRST_WITH_BFLOAT16 for capability in told.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return True
