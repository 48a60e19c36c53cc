"""What every process that trains says before it imports torch: it starts seconds sooner and leaves the cores alone."""

import functools
import importlib.metadata
import os
import sys


def prepare_imports() -> None:
    """Set what torch and transformers read once, and keep out what they would import for nothing."""
    # Spinning threads eat the cores that the customer's servers may share with us.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # They are there for python graders, which run in processes of their own. transformers would spend three seconds
    # on importing them, for a way of generating and a loss of object detection that we do not use.
    for package in ("sklearn", "scipy"):
        sys.modules[package] = None  # pyright: ignore[reportArgumentType]
    # transformers and TRL each read the metadata of everything that is installed, for more than half a second.
    importlib.metadata.packages_distributions = functools.cache(importlib.metadata.packages_distributions)
