"""`rft rehearse --remote`: the platform plays the burst, from where training runs and with its signatures."""

import time

from rft.core.base import JsonObject
from rft.platform.cli.client import part
from rft.platform.cli.rehearse import Wanted
from rft.platform.cli.session import CannotDo, Session, read_body
from rft.platform.cli.transfer import upload
from rft.platform.cli.views import File, Problem, View
from rft.rollouts.rehearsal_report import RehearsalReport

_POLL_S = 0.5


class Rehearsal(View):
    """A rehearsal as far as it came."""

    id: str
    status: str
    report: RehearsalReport | None = None
    error: Problem | None = None


def rehearse_there(here: Session, wanted: Wanted) -> JsonObject:
    """The finished rehearsal as the API has it. Raises CannotDo when it failed."""
    order = read_body(str(wanted.job))
    if wanted.rows is not None:
        order["training_file"] = File.model_validate(upload(here, wanted.rows, "fine-tune")).id
    numbers = {"calls_per_rollout": wanted.calls_per_rollout, "max_rollouts": wanted.max_rollouts}
    order |= {name: value for name, value in numbers.items() if value is not None}
    raw = here.client.post("/rehearsals", order)
    with here.err.status("rehearsing"):
        while (rehearsal := Rehearsal.model_validate(raw)).status in ("queued", "running"):
            time.sleep(_POLL_S)
            raw = here.client.get(f"/rehearsals/{part(rehearsal.id)}")
    if rehearsal.report is None:
        why = "the platform could not play it" if rehearsal.error is None else rehearsal.error.message
        raise CannotDo(f"{rehearsal.id} failed: {why}")
    return raw
