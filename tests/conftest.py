"""For all tests."""

import gc
import os
import signal
import ssl
from collections.abc import Generator
from functools import cache

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from rft.engines.import_env import keep_out_what_graders_need, prepare_products

TOGETHER = {
    "tests/e2e/engines": {
        "tests/e2e/engines/test_real_vllm.py",
        "tests/e2e/engines/test_served_by_vllm.py",
    },
    "tests/e2e/platform": {
        "tests/e2e/platform/test_bad_input.py",
        "tests/e2e/platform/test_crash_recovery.py",
        "tests/e2e/platform/test_pause_and_resume.py",
        "tests/e2e/platform/test_registered_and_signed.py",
        "tests/e2e/platform/test_results.py",
        "tests/e2e/platform/test_unfit_source.py",
    },
    "tests/unit/chat": {
        f"tests/unit/chat/test_{name}.py"
        for name in (
            "families",
            "foreign_errors",
            "reading_time",
            "saved_chat",
            "text_is_never_control",
            "text_of_all_families",
            "thinking_switch",
            "thoughts",
            "token_bytes",
        )
    },
    "tests/e2e/web, every page": {
        "tests/e2e/web/test_every_page.py",
        "tests/e2e/web/test_every_troubled_page.py",
    },
    "looks at base models": {
        "tests/integration/api/test_unusable_models.py",
        "tests/integration/cli/test_model_check.py",
    },
}
"""Files that one process runs: they share one server of vLLM, one `rft up`, the buttons that were examined, tokenizers
that take seconds to open, the process of which checks are forked."""

# What they expect is what a CPU computes, and several at once would share a host's first GPU: `tests/gpu` is for those.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# As in a trainer's process, and before anything of MKL is used: some tests hold the two against each other to the bit.
prepare_products()
keep_out_what_graders_need()

pytest_plugins = ("tests.shared.servers",)

# Importing all tests makes a million objects that stay: nobody need look through them for garbage, now or later.
gc.disable()

# Every client of httpx reads the system's certificates, for 25 ms of a processor, also where it never meets TLS.
ssl.create_default_context = cache(ssl.create_default_context)

# Whoever runs us in the background may have us ignore Ctrl-C, and every process that we start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, nothing about our code.
settings.register_profile("patient", deadline=None, print_blob=True)
# Where each example takes long, tests try a quarter of theirs; RFT_TEST_EXAMPLES=all has them try all: see
# tests/shared/examples.py. Each run tries others.
# A longer look for counterexamples: pytest --hypothesis-profile=thorough tests/unit
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=500)
settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file leaves open is told in that file, and not wherever garbage is collected next."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(nextitem: pytest.Item | None, item: pytest.Item) -> Generator[None, object, object]:
    """What outlives its file stays: nobody looks through it again.

    After the fixtures of the file have ended, whose garbage still is. The price: what becomes garbage later, and is
    part of a cycle, is never collected.
    """
    is_done = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return is_done


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> "FilesTogether | None":
    """One file after the other, and those of `TOGETHER` in one process."""
    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


class FilesTogether(LoadFileScheduling):
    """As `--dist loadfile`, but files that share something that takes long to start run one after the other."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((group for group, files in TOGETHER.items() if file in files), file)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
