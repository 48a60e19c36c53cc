"""`make bench-train` at toy size, so that it still runs when somebody needs its figures. Nothing here is a timing."""

from rft.core.base import JsonObject
from tests.bench.train import Shape, Size, missed, mixed_lengths, rows_of, update

TINY = Shape(vocabulary=700, hidden=32, intermediate=64, layers=2)


def test_an_update_and_its_control_are_measured_over_the_same_tokens() -> None:
    lengths = mixed_lengths(5, 60)
    ours, control = (update(TINY, lengths, threads=1, is_control=is_control) for is_control in (False, True))
    assert ours.tokens == control.tokens == sum(lengths)
    assert max(lengths) == lengths[0] == 60
    assert min(ours.cpu_s, control.cpu_s) > 0
    assert {"peak_mib", "tokens_per_s"} <= set(ours.figures())


def test_rows_have_the_lengths_they_were_asked_for() -> None:
    assert [row.tokens for row in rows_of([8, 33], 700)] == [8, 33]
    assert [row.sampled_tokens for row in rows_of([8, 33], 700)] == [4, 16]


def test_what_nobody_names_is_of_full_size_and_every_bar_counts() -> None:
    assert (Size().rows, Size().more_rows, Size().tokens, Size().shape.vocabulary) == (128, 512, 2048, 151_936)
    cases: JsonObject = {"memory": {"passed": False}, "mixed_lengths": {"passed": True}}
    assert missed({"cases": cases}) == ["memory"]
