"""What every process that trains says before it imports torch: it starts seconds sooner and leaves the cores alone."""

import functools
import importlib.metadata
import os
import sys
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def prepare_imports() -> None:
    """Set what torch and transformers read once, and keep out what they would import for nothing."""
    # Spinning threads eat the cores that the customer's servers may share with us.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # cuDNN's attention, which torch prefers on Hopper, makes a plan for each shape that it has not seen, and those of
    # micro-batches are hardly ever seen again. Not measured here: no GPU was at hand.
    os.environ.setdefault("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
    # NVIDIA's containers set it: products in single precision would be of ten bits, and no longer what was sampled.
    os.environ.pop("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", None)
    prepare_products()
    keep_out_what_graders_need()


def keep_out_what_graders_need() -> None:
    """Have transformers do without: seconds that a process needs longer to start."""
    # They are there for python graders, which run in processes of their own. transformers would spend three seconds
    # on importing them, for a way of generating and a loss of object detection that we do not use.
    for package in ("sklearn", "scipy"):
        sys.modules[package] = None  # pyright: ignore[reportArgumentType]
    # transformers and TRL each read the metadata of everything that is installed, for more than half a second.
    importlib.metadata.packages_distributions = functools.cache(importlib.metadata.packages_distributions)


def prepare_products() -> None:
    """Have MKL sum a row of a product in the same order whatever other rows there are, where it can.

    On some processors it does so by itself. On others eight rows of 200 numbers come out otherwise than sixteen, or
    1,024 of them by the number of threads. Source: oneMKL, conditional numerical reproducibility in strict mode.
    """
    try:
        processor = _CPUINFO.read_text()
    except OSError:
        return
    mode = strict_mode(processor)
    if mode is not None:
        os.environ.setdefault("MKL_CBWR", mode)


def strict_mode(cpuinfo: str) -> str | None:
    """For the first processor of `/proc/cpuinfo`; only Intel's have one."""
    lines = (line.partition(":") for line in cpuinfo.partition("\n\n")[0].splitlines())
    told = {name.strip(): value.strip() for name, _, value in lines}
    flags = set(told.get("flags", "").split())
    if told.get("vendor_id") != "GenuineIntel":
        return None
    if flags >= {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}:
        return "AVX512,STRICT"
    return "AVX2,STRICT" if "avx2" in flags else None
