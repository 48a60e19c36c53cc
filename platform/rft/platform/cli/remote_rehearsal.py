"""`rft rehearse --remote`: the platform plays the burst, from where training runs and with its signatures."""

import time
from contextlib import suppress

import typer

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer
from rft.platform.cli.client import PlatformProblem, part
from rft.platform.cli.rehearse import Wanted
from rft.platform.cli.resources import rehearsal_state
from rft.platform.cli.session import CannotDo, Session, read_body
from rft.platform.cli.transfer import uploading_for_order

_POLL_S = 0.5


def rehearse_there(here: Session, wanted: Wanted) -> JsonObject:
    """The finished rehearsal as the API has it. Raises CannotDo when it failed; Ctrl-C cancels it, too."""
    order = read_body(str(wanted.job))
    numbers = {"calls_per_rollout": wanted.calls_per_rollout, "max_rollouts": wanted.max_rollouts}
    order |= {name: value for name, value in numbers.items() if value is not None}
    with uploading_for_order(here) as send:
        if wanted.rows is not None:
            order["training_file"] = send(wanted.rows)
        raw = here.client.post("/rehearsals", order)
    rehearsal_id = Answer(raw).need("id", str)
    path = f"/rehearsals/{part(rehearsal_id)}"
    try:
        here.note(f"{rehearsal_id} is ordered; Ctrl-C cancels it")
        with here.err.status("rehearsing"):
            while (status := Answer(raw).need("status", str)) in ("queued", "running"):
                time.sleep(_POLL_S)
                raw = here.client.get(path)
    except KeyboardInterrupt:
        _call_off(here, path)
        raise typer.Exit(130) from None
    if Answer(raw).part("report") is None:
        why = Answer(raw).get("error.message", str) or "the platform could not play it"
        raise CannotDo(f"{rehearsal_id} was cancelled" if status == "cancelled" else f"{rehearsal_id} failed: {why}")
    return raw


def _call_off(here: Session, path: str) -> None:
    with suppress(PlatformProblem):  # It may be over by now.
        rehearsal = Answer(here.client.post(f"{path}/cancel"))
        here.note(f"{rehearsal.need('id', str)}: {rehearsal_state(rehearsal)}")
