"""Homes outside pytest's own folder, which root's service user could not enter."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    """A place for one home that all tests of a module share."""
    yield from _home()


@pytest.fixture
def home() -> Iterator[Path]:
    """A place for one home; the folder itself is not there yet."""
    yield from _home()


def _home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rft-test-"))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    yield folder / "home"
    shutil.rmtree(folder)
