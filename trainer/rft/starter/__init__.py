"""The starter: a tiny chat model built on the spot, for machines without network.

It can use the example's three tools and copy what it reads, but its habits are poor: something to improve by
reinforcement learning within minutes on two CPU cores.
"""

from pathlib import Path

from rft.starter.report import StarterReport


def build(directory: Path, seed: int = 1) -> StarterReport:
    """Build a starter into `directory` as a Hugging Face model directory plus a `starter.json`.

    The directory appears whole or not at all; an existing one is replaced. Takes about a minute on two idle cores; the
    same seed gives an equally good starter, not the same bits on other machines. Raises StarterError when no start
    passes the gate.
    """
    from rft.starter.builder import build_starter  # torch is heavy, and its settings must come first

    return build_starter(directory, seed)


__all__ = ["StarterReport", "build"]
