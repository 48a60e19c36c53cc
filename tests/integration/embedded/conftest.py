"""Homes outside pytest's own folder, which root's service user could not enter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.homes import home_folder


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    """A place for one home that all tests of a module share."""
    yield from _home()


@pytest.fixture
def home() -> Iterator[Path]:
    """A place for one home; the folder itself is not there yet."""
    yield from _home()


def _home() -> Iterator[Path]:
    with home_folder() as folder:
        yield folder / "home"
