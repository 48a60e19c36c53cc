"""A run whose own thread is stuck is ended by another one, and the event log says why."""

from pathlib import Path

import pytest

from rft.core.errors import RunFailed, RunPaused
from rft.core.events import EventLine, Notice, RunEnded
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.endings import tell_end
from rft.trainer.events import EventWriter
from rft.trainer.ranks.processes import RankLost


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RunPaused("sharded_out_of_memory", "memory ran out"), 0, "sharded_out_of_memory"),
        (RunFailed("no_rows", "no rows"), 1, "no_rows"),
        (RankLost("rank 1 of 2 was killed"), 76, "rank_lost"),
    ],
)
def test_the_log_says_why(error: Exception, status: int, code: str, tmp_path: Path) -> None:
    events = EventWriter(tmp_path / "events.jsonl")
    assert tell_end(events, Checkpoints(tmp_path), error) == status
    events.close()
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    event = EventLine.model_validate_json(line).event
    assert isinstance(event, RunEnded | Notice)
    assert code == (event.error_code if isinstance(event, RunEnded) else event.code)
