"""Dates, sizes, durations, and text of others."""

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.platform.cli import formats


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "-"),
        (-3, "0 ms"),
        (0.0072, "7 ms"),
        (1.26, "1.3 s"),
        (45.4, "45 s"),
        (59.6, "1 min 0 s"),
        (185, "3 min 5 s"),
        (7_800, "2 h 10 min"),
        (274_000, "3 d 4 h"),
    ],
)
def test_durations_use_two_units(seconds: float | None, said: str) -> None:
    assert formats.duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_600, "1.0 MB"), (512 << 20, "536.9 MB")]
)
def test_sizes_use_one_unit(count: int, said: str) -> None:
    assert formats.size(count) == said


def test_dates_are_days_and_minutes() -> None:
    assert formats.date(1_790_000_000, UTC) == "2026-09-21 14:13"
    assert formats.clock(1_790_000_000, UTC) == "14:13:20"
    assert formats.date(None) == "-"


def test_counts_know_singular_and_plural() -> None:
    assert [formats.counted(count, "row") for count in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]


@given(st.text())
def test_no_text_steers_the_terminal(text: str) -> None:
    safe = formats.printable(text)
    assert all(letter in "\n\t" or letter.isprintable() or ord(letter) >= 0xA0 for letter in safe)
    assert not set(safe) & {"\x1b", "\x9b", "\x07", "\r", "\u202e"}
    safe.encode()


@given(st.text(), st.integers(2, 100))
def test_one_line_is_one_line_and_not_too_long(text: str, limit: int) -> None:
    line = formats.one_line(text, limit=limit)
    assert "\n" not in line
    assert len(line) <= limit
