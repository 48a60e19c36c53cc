"""A run has begun before anything heavy is imported, and some packages never are."""

import subprocess
import sys


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_a_run_begins_without_torch_and_what_stands_on_it() -> None:
    heavy = ("torch", "transformers", "numpy", "aiohttp")
    assert printed(f"import sys, rft.trainer.run; print([name for name in {heavy} if name in sys.modules])") == "[]"


def test_what_a_trainer_keeps_out_looks_as_if_it_were_not_installed() -> None:
    code = (
        "import importlib.util; from rft.engines.import_env import prepare_imports; prepare_imports();"
        " print([importlib.util.find_spec(name) for name in ('sklearn', 'scipy')])"
    )
    assert printed(code) == "[None, None]"


def test_the_metadata_of_installed_packages_is_read_once() -> None:
    code = (
        "import importlib.metadata; from rft.engines.import_env import prepare_imports; prepare_imports();"
        " read = importlib.metadata.packages_distributions; print(read() is read(), 'torch' in read())"
    )
    assert printed(code) == "True True"


def test_every_similarity_is_computed_without_what_a_trainer_keeps_out() -> None:
    code = (
        "from typing import get_args; from rft.engines.import_env import prepare_imports; prepare_imports();"
        " from rft.core.graders import SimilarityMetric;"
        " from rft.grader_gateway.builtin.similarity import UNSUPPORTED_METRICS, similarity;"
        " told = [name for name in get_args(SimilarityMetric) if name not in UNSUPPORTED_METRICS];"
        " print([similarity(name, 'a b c d e f', 'a b c d e f') > 0.99 for name in told])"
    )
    assert set(printed(code).strip("[]").split(", ")) == {"True"}
