"""Carries an export over: creates what is not here yet, says what cannot be had, compares what came of it.

Started again it goes on: evals and runs that are here are known by their metadata. A run is created with its file or
not at all.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rft.core.base import JsonObject
from rft.platform.cli.answers import Answer
from rft.platform.cli.client import ConnectionLost, PlatformProblem
from rft.platform.cli.evals_import.export import Export, dumped
from rft.platform.cli.evals_import.orders import (
    AS,
    FROM,
    RECORDED,
    Order,
    RunPlan,
    criterion_at,
    eval_order,
    recorded_item,
    run_plan,
    shown_name,
    source_file,
)
from rft.platform.cli.formats import counted
from rft.platform.cli.inputs import CannotDo, part
from rft.platform.cli.session import Session
from rft.platform.cli.transfer import local_name, uploading_for_order, wait_for_end

_ALL = 1_000_000
_UNFINISHED = ("queued", "in_progress")
_ENDED_IN_VAIN = ("failed", "canceled")


class LeftOut(NamedTuple):
    """Something that was not carried over."""

    what: str
    why: str


@dataclass(slots=True)
class Carried:
    """An eval there and here with its runs, or one of them."""

    exported: JsonObject
    here: JsonObject
    is_new: bool
    runs: "list[Carried]" = field(default_factory=list["Carried"])


@dataclass(slots=True)
class Import:
    """One pass over an export."""

    session: Session
    export: Export
    model: str | None
    """Samples anew what was sampled by a hosted model; None: recorded samples are graded again."""
    may_be_partial: bool
    """An eval whose testing criteria are not all to be had here is carried over with the others."""
    evals: list[Carried] = field(default_factory=list[Carried])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    _files: dict[str, str] = field(default_factory=dict[str, str])
    """Files that are here, by the id that they had."""

    def carry(self) -> None:
        """Create all that is missing here. Raises ConnectionLost, BrokenExport and OSError."""
        here = {}
        for raw in self.session.client.listed("/evals", limit=_ALL).found:
            here.setdefault(Answer(raw).get(f"metadata.{FROM}", str), raw)
        for exported in self._exported("eval", self.export.eval_ids(), self.export.evaluation):
            with self._noting_refusal(_named("eval", exported)):
                found = here.get(_id(exported))
                carried = Carried(exported, found or self._create_eval(exported), is_new=found is None)
                self.evals.append(carried)
                self._carry_runs(carried)

    def wait(self) -> None:
        """Until all runs have ended."""
        for carried in self.evals:
            for run in carried.runs:
                path = f"{_runs_path(carried)}/{part(_id(run.here))}"
                run.here = wait_for_end(self.session, Answer(run.here).need("name", str), run.here, path)
                if (why := Answer(run.here).get("error.message", str)) is not None:
                    self._leave_out(_named("run", run.exported), f"{_id(run.here)} ended: {why}")

    def _create_eval(self, exported: JsonObject) -> JsonObject:
        """With all criteria; where that may be, without those that are refused."""
        without: list[int] = []
        while True:
            order = eval_order(exported, without=without)
            try:
                created = self.session.client.post("/evals", order.body)
            except ConnectionLost:
                raise
            except PlatformProblem as problem:
                refused = self._refused_criterion(exported, problem, without)
                if refused is None:
                    raise
                without.append(refused)
            else:
                self._note_remarks(_named("eval", exported), order)
                return created

    def _refused_criterion(self, exported: JsonObject, problem: PlatformProblem, without: list[int]) -> int | None:
        """The place, in the export, of the one criterion that a refusal names, if it may be left out."""
        place = criterion_at((problem.answered or {}).get("param"))
        places = [index for index in range(len(Answer(exported).parts("testing_criteria"))) if index not in without]
        if place is None or place >= len(places) or len(places) == 1:
            return None
        criterion = Answer(exported).parts("testing_criteria")[places[place]]
        what = f"testing criterion '{shown_name(criterion.get('name', str) or '')}' of {_named('eval', exported)}"
        if not self.may_be_partial:
            raise CannotDo(f"{problem}; --partial carries the eval over without it")
        self._leave_out(what, str(problem))
        return places[place]

    def _carry_runs(self, carried: Carried) -> None:
        here: dict[tuple[str | None, str | None], JsonObject] = {}
        for raw in self.session.client.listed(_runs_path(carried), limit=_ALL).found:
            run = Answer(raw)
            if run.need("status", str) not in _ENDED_IN_VAIN:
                here.setdefault((run.get(f"metadata.{FROM}", str), run.get(f"metadata.{AS}", str)), raw)
        for exported in self._exported("run", self.export.run_ids(_id(carried.exported)), self.export.run):
            with self._noting_refusal(_named("run", exported)):
                self._carry_run(carried, exported, here)

    def _carry_run(
        self, carried: Carried, exported: JsonObject, here: dict[tuple[str | None, str | None], JsonObject]
    ) -> None:
        file_id = source_file(exported)
        plan = run_plan(exported, model=self.model, has_file=file_id is not None and self.export.has_file(file_id))
        marks = Answer(plan.order.body)
        found = here.get((marks.need(f"metadata.{FROM}", str), marks.need(f"metadata.{AS}", str)))
        if found is None:
            self._note_remarks(_named("run", exported), plan.order)
            if exported.get("status") in _UNFINISHED:
                self._leave_out(_named("run", exported), "it had not ended when it was exported: maybe not all of it")
        carried.runs.append(Carried(exported, found or self._create_run(carried, exported, plan), found is None))

    def _create_run(self, carried: Carried, exported: JsonObject, plan: RunPlan) -> JsonObject:
        with uploading_for_order(self.session, "evals") as send:
            file_id = self._source(exported, plan, send)
            created = self.session.client.post(_runs_path(carried), plan.body(file_id))
        if plan.file_id is not None and file_id is not None:
            self._files[plan.file_id] = file_id
        return created

    def _source(self, exported: JsonObject, plan: RunPlan, send: Callable[[Path], str]) -> str | None:
        """The id of the run's file; None where its items stand in the order."""
        if plan.file_id in self._files:
            return self._files[plan.file_id]
        with tempfile.TemporaryDirectory() as folder:
            if plan.file_id is not None:
                with self.export.file(plan.file_id) as file:
                    if file is None:
                        raise CannotDo(f"the export holds no file {plan.file_id}")
                    path = Path(folder) / local_name(file[0], f"{plan.file_id}.jsonl")
                    with path.open("wb") as copy:
                        shutil.copyfileobj(file[1], copy)
                return send(path)
            if not plan.has_recorded_items:
                return None
            path = Path(folder) / f"{_id(exported)}.jsonl"
            self._write_items(exported, plan, path)
            return send(path)

    def _write_items(self, exported: JsonObject, plan: RunPlan, path: Path) -> None:
        with_sample = Answer(plan.order.body).need(f"metadata.{AS}", str) == RECORDED
        reasons, written = Counter[str](), 0
        with path.open("wb") as file:
            for output_item in self.export.items(_id(exported)):
                recorded = recorded_item(output_item, with_sample=with_sample, with_input=plan.reads_stored)
                if recorded.line is None:
                    reasons[recorded.why_not or ""] += 1
                else:
                    written += 1
                    file.write(dumped(recorded.line))
        if not written:
            why = next(iter(reasons), "the export holds no output items of it")
            raise CannotDo(f"there is nothing to grade: {why}")
        for why, count in reasons.items():
            self._leave_out(f"{counted(count, 'item')} of {_named('run', exported)}", why)

    def _exported(
        self, kind: str, ids: Iterable[str], read: Callable[[str], JsonObject | None]
    ) -> Iterator[JsonObject]:
        """Those that the export holds; what it lacks is noted."""
        for id_ in ids:
            exported = read(id_)
            if exported is None:
                self._leave_out(f"{kind} {id_}", self.export.why_missing(id_) or "the export has none")
            else:
                if (why := self.export.why_gone(id_)) is not None:
                    self._leave_out(
                        _named(kind, exported), f"the export took it for deleted, maybe not all came: {why}"
                    )
                yield exported

    @contextmanager
    def _noting_refusal(self, what: str) -> Generator[None]:
        """One thing that cannot be had does not keep the others from being carried over."""
        try:
            yield
        except ConnectionLost:
            raise
        except (PlatformProblem, CannotDo) as problem:
            self._leave_out(what, str(problem))

    def _note_remarks(self, what: str, order: Order) -> None:
        for remark in order.remarks:
            self._leave_out(what, remark)

    def _leave_out(self, what: str, why: str) -> None:
        self.left_out.append(LeftOut(what, why))


def _named(kind: str, exported: JsonObject) -> str:
    name, id_ = exported.get("name"), _id(exported)
    return f"{kind} {id_}" + (f" ({name})" if isinstance(name, str) and name else "")


def _id(raw: JsonObject) -> str:
    return Answer(raw).need("id", str)


def _runs_path(carried: Carried) -> str:
    return f"/evals/{part(_id(carried.here))}/runs"


def verdicts(run: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Each criterion of a run by its name there: how many items passed, of how many that were graded."""
    for one in Answer(run).parts("per_testing_criteria_results"):
        passed, failed = one.get("passed", int) or 0, one.get("failed", int) or 0
        yield one.get("testing_criteria", str) or "", {"passed": passed, "graded": passed + failed}
