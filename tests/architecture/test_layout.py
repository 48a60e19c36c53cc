"""The layout's traps, kept shut."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SOURCE_ROOTS = ("core", "platform", "tool_gateway", "grader_gateway", "trainer")
HEAVY = ("torch", "transformers", "trl", "peft", "vllm")
TORCH_FREE = (
    "rft.core.events",
    "rft.egress",
    "rft.tool_gateway",
    "rft.grader_gateway",
    "rft.chat.hermes",
    "rft.rollouts.sampler",
    "rft.platform.cli",
)


@pytest.mark.parametrize("folder", [".", *SOURCE_ROOTS, "platform/rft"])
def test_stdlib_platform_is_never_shadowed(folder: str) -> None:
    out = subprocess.run(
        [sys.executable, "-c", "import platform; print(platform.__file__)"],
        cwd=ROOT / folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(out.stdout.strip()).parent == Path(sysconfig.get_path("stdlib"))


def test_no_directory_named_platform_is_a_regular_package() -> None:
    assert not [r for r in SOURCE_ROOTS for _ in (ROOT / r).glob("**/platform/__init__.py")]
    assert not (ROOT / "platform" / "__init__.py").exists()


def test_the_shared_namespace_stays_a_namespace() -> None:
    assert not [r for r in SOURCE_ROOTS if (ROOT / r / "rft" / "__init__.py").exists()]


def test_torch_stays_in_the_trainer() -> None:
    code = f"import sys, {', '.join(TORCH_FREE)}; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_files_stay_readable() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for folder in SOURCE_ROOTS
        for path in (ROOT / folder).rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 400
    }
    assert not long, "a concept is missing where a file grows beyond 400 lines"


@pytest.mark.parametrize("kind", ["unit", "integration", "e2e", "bench", "shared"])
def test_what_kinds_of_tests_share_lives_in_shared(kind: str) -> None:
    others = {"unit", "integration", "e2e"} - {kind}
    borrowed = {
        f"{path.relative_to(ROOT)}: {other}"
        for path in (ROOT / "tests" / kind).rglob("*.py")
        for other in others
        if f"from tests.{other}" in path.read_text()
    }
    assert not borrowed
