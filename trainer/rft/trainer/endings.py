"""What the event log says of a run that cannot go on."""

from rft.core.errors import RunPaused
from rft.core.events import Notice, RunEnded
from rft.trainer.checkpoints import Checkpoints
from rft.trainer.error_fields import error_fields
from rft.trainer.events import EventWriter
from rft.trainer.ranks.processes import EXIT_RANK_LOST, RankLost


def end_with(error: Exception, best_step: int | None) -> RunEnded:
    """Paused or failed, with what customers are told."""
    code, message, param = error_fields(error)
    return RunEnded(
        outcome="paused" if isinstance(error, RunPaused) else "failed",
        best_step=best_step,
        error_code=code,
        error_message=message,
        error_param=param,
    )


def lost_notice(lost: RankLost) -> Notice:
    """Of a run that goes on with its next launch."""
    how = str(lost)
    message = f"{how[0].upper()}{how[1:]}. The run goes on from its last complete checkpoint with its next launch."
    return Notice(level="warn", code="rank_lost", message=message)


def tell_end(events: EventWriter, checkpoints: Checkpoints, error: Exception) -> int:
    """Write it for a run whose own thread is stuck; the status that its process is to end with. In any thread."""
    if isinstance(error, RankLost):
        events.append(lost_notice(error))
        status = EXIT_RANK_LOST
    else:
        ended = end_with(error, checkpoints.best_step)
        events.append(ended)
        status = 1 if ended.outcome == "failed" else 0
    events.sync()
    return status
