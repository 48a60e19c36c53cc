"""Rare garbage collection still collects."""

import gc
import weakref
from collections.abc import Generator

import pytest

from rft.core.gc_tuning import collect_rarely


class Cycle:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    """Nothing is thawed: every later collection of this process would look through all that is loaded."""
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    yield
    gc.set_threshold(*thresholds)
    assert gc.get_freeze_count() >= frozen


def test_what_is_loaded_is_not_looked_at_again() -> None:
    collect_rarely()
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < 10_000


def test_new_cycles_are_still_found() -> None:
    collect_rarely()
    lost = weakref.ref(Cycle())
    young = gc.get_threshold()[0]
    kept: list[list[int]] = []
    while lost() is not None:
        assert len(kept) < 2 * young
        kept.append([])
