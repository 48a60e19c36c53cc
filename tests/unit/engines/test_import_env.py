"""A run has begun before anything heavy is imported, and some packages never are."""

import os
import subprocess
import sys

import pytest

from rft.engines.import_env import strict_mode


def printed(code: str) -> str:
    own = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}  # All tests have it.
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=own)
    return done.stdout.strip()


def test_a_run_begins_without_torch_and_what_stands_on_it() -> None:
    heavy = ("torch", "transformers", "numpy", "aiohttp")
    assert printed(f"import sys, rft.trainer.run; print([name for name in {heavy} if name in sys.modules])") == "[]"


def test_what_a_trainer_keeps_out_looks_as_if_it_were_not_installed() -> None:
    code = (
        "import importlib.util; from rft.engines.import_env import prepare_imports; prepare_imports();"
        " print([importlib.util.find_spec(name) for name in ('sklearn', 'scipy')])"
    )
    assert printed(code) == "[None, None]"


@pytest.mark.lengthy
def test_single_precision_is_that_in_containers_that_would_have_it_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1")
    code = "; import torch; print(torch.get_float32_matmul_precision())"
    assert printed(f"import os{code}") == "high", "torch still does as it says"
    prepared = "from rft.engines.import_env import prepare_imports; prepare_imports()"
    assert printed(f"{prepared}{code}") == "highest"


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


@pytest.mark.lengthy
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_of_a_product_does_not_depend_on_the_rows_beside_it(threads: int) -> None:
    code = (
        "from rft.engines.import_env import prepare_imports; prepare_imports();"
        f" import torch; torch.set_num_threads({threads}); torch.manual_seed(0);"
        " from torch.nn.functional import linear;"
        " pairs = [(torch.randn(256, k), torch.randn(n, k)) for k, n in ((200, 64), (320, 100), (1024, 1024))];"
        " few = lambda x, w, rows: linear(x[:rows], w)[:8];"
        " print(all(torch.equal(few(x, w, rows), few(x, w, 8)) for x, w in pairs for rows in range(8, 257, 8)))"
    )
    assert printed(code) == "True"


INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {}\n\nprocessor\t: 1\n"
ALL_OF_512 = "avx2 avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("cpuinfo", "mode"),
    [
        (INTEL.format(ALL_OF_512), "AVX512,STRICT"),
        (INTEL.format("avx2 avx512f"), "AVX2,STRICT"),
        (INTEL.format("sse4_2 avx"), None),
        (INTEL.format(ALL_OF_512).replace("GenuineIntel", "AuthenticAMD"), None),
        ("", None),
    ],
)
def test_products_are_strict_where_the_processor_can(cpuinfo: str, mode: str | None) -> None:
    assert strict_mode(cpuinfo) == mode
