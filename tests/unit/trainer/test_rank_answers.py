"""What a rank beside the first answers, and logs, where it cannot go on."""

import logging
from typing import NoReturn

import pytest

from rft.trainer.ranks.group import NotAgreed
from rft.trainer.ranks.messages import Failed
from rft.trainer.ranks.other_rank import _attempted  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("problem", "level"), [(NotAgreed("rank 0 does not go on"), logging.INFO), (RuntimeError("broken"), logging.ERROR)]
)
def test_a_healthy_rank_whose_run_ends_logs_no_error(
    problem: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> NoReturn:
        raise problem

    with caplog.at_level(logging.INFO):
        assert isinstance(_attempted(work), Failed)
    assert [record.levelno for record in caplog.records] == [level]
