"""What an import tells: each eval and run there and here, and what was left out."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer, Resource, Styled, state, styled
from rft.platform.cli.evals_import.importing import Carried, Import, verdicts
from rft.platform.cli.evals_import.orders import AS, carried_places, result_places, shown_name
from rft.platform.cli.formats import printable
from rft.platform.cli.pages import table


def to_report(done: Import) -> JsonObject:
    """For programs."""
    return {
        "evals": [_eval(carried) for carried in done.evals],
        "left_out": [one._asdict() for one in done.left_out],
    }


def _eval(carried: Carried) -> JsonObject:
    places = carried_places(carried.exported, carried.here)
    return {**_identity(carried), "runs": [_run(run, carried.exported, places) for run in carried.runs]}


def _identity(carried: Carried) -> JsonObject:
    there, here = Answer(carried.exported), Answer(carried.here)
    names: JsonObject = {"imported_from": there.need("id", str), "id": here.need("id", str)}
    return {**names, "name": here.get("name", str), "is_new": carried.is_new}


def _run(run: Carried, evaluation: JsonObject, places: Sequence[int]) -> JsonObject:
    """`evaluation`: as it was exported; `places`: of the criteria that are here, in it. Names may be the same."""
    here, there = Answer(run.here), list(verdicts(run.exported))
    # Results here are in the order of the eval's criteria.
    now = dict(zip(places, (figures for _, figures in verdicts(run.here)), strict=False))
    of = result_places(evaluation, [name for name, _ in there])
    return {
        **_identity(run),
        "imported_as": here.get(f"metadata.{AS}", str),
        "status": here.need("status", str),
        "errored": here.get("result_counts.errored", int) or 0,
        "criteria": [
            {"name": shown_name(name), "there": figures, "here": None if place is None else now.get(place)}
            for (name, figures), place in zip(there, of, strict=True)
        ],
    }


def _here(criterion: Answer) -> Styled:
    """Red where the same samples are graded otherwise than there."""
    now = criterion.part("here")
    if now is None:
        return styled("not graded", "dim")
    text = f"{now.need('passed', int):,} of {now.need('graded', int):,}"
    differs = criterion.raw["here"] != criterion.raw["there"] and criterion.get("imported_as", str) == "recorded"
    return styled(text, "red" if differs else "")


_CRITERION = Resource(
    fields="run; sampled by=imported_as; state; criterion=name; passed there={there.passed} of {there.graded};"
    " passed here; >errored",
    none="no runs",
    special={"passed here": _here, "state": lambda it: state(it.need("status", str))},
)


def show(report: JsonObject, out: Console) -> None:
    """For people."""
    for evaluation in Answer(report).parts("evals"):
        how = "" if evaluation.need("is_new", bool) else " (was here)"
        name = evaluation.get("name", str) or ""
        line = f"{evaluation.need('imported_from', str)} -> {evaluation.need('id', str)}{how}  {name}"
        out.print(Text(printable(line)), soft_wrap=True)
        rows = [row for run in evaluation.parts("runs") for row in _rows(run)]
        if rows:
            out.print(table(_CRITERION, rows, out))
    left_out = Answer(report).parts("left_out")
    if left_out:
        out.print("\nNot carried over", style="bold")
    for one in left_out:
        line = f"  - {one.need('what', str)}: {one.need('why', str)}"
        out.print(Text(printable(line)), soft_wrap=True)


def _rows(run: Answer) -> list[Answer]:
    """One per criterion."""
    about: JsonObject = {name: run.raw.get(name) for name in ("imported_as", "status", "errored")}
    criteria = run.parts("criteria") or [Answer({"name": None})]
    return [Answer({**about, **criterion.raw, "run": run.need("id", str)}) for criterion in criteria]
