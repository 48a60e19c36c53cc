"""`rft rehearse --remote`: the platform plays the burst, from where training runs and with its signatures."""

import time
from contextlib import suppress

import typer

from rft.core.base import JsonObject
from rft.platform.cli.client import PlatformProblem, part
from rft.platform.cli.rehearsal_pages import Rehearsal
from rft.platform.cli.rehearse import Wanted
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
    ordered = Rehearsal.model_validate(raw)
    path = f"/rehearsals/{part(ordered.id)}"
    try:
        here.note(f"{ordered.id} is ordered; Ctrl-C cancels it")
        with here.err.status("rehearsing"):
            while not (rehearsal := Rehearsal.model_validate(raw)).is_over:
                time.sleep(_POLL_S)
                raw = here.client.get(path)
    except KeyboardInterrupt:
        _call_off(here, path)
        raise typer.Exit(130) from None
    if rehearsal.report is None:
        why = f"{rehearsal.id} was cancelled" if rehearsal.status == "cancelled" else _failure(rehearsal)
        raise CannotDo(why)
    return raw


def _call_off(here: Session, path: str) -> None:
    with suppress(PlatformProblem):  # It may be over by now.
        rehearsal = Rehearsal.model_validate(here.client.post(f"{path}/cancel"))
        here.note(f"{rehearsal.id}: {rehearsal.state}")


def _failure(rehearsal: Rehearsal) -> str:
    why = "the platform could not play it" if rehearsal.error is None else rehearsal.error.message
    return f"{rehearsal.id} failed: {why}"
