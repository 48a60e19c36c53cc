"""Runs of evals and their output items as they are shown."""

from typing import Literal, cast

from pydantic import BaseModel, JsonValue

from rft.core.base import JsonObject
from rft.core.row_spread import RowSpread, Variance
from rft.platform.api.pagination import Listed
from rft.platform.api.wire import UnixTime
from rft.platform.evals.comparison import ComparedRow, Comparison
from rft.platform.evals.figures import RunFigures
from rft.platform.evals.output_item_repository import ItemStatus, OutputItemRow, RunCounts
from rft.platform.evals.repository import EvalRow
from rft.platform.evals.run_repository import RunRow, RunStatus
from rft.platform.store.stored_json import StoredJson


class EvalApiErrorObject(BaseModel):
    """Why a run failed."""

    code: str
    message: str
    param: str | None = None
    """Ours."""


class ResultCountsObject(BaseModel):
    """Output items so far."""

    total: int
    passed: int
    failed: int
    errored: int
    """Without a verdict: in no figure."""


class PerCriterionObject(BaseModel):
    """Output items under one criterion."""

    testing_criteria: str
    """Its id."""
    passed: int
    failed: int
    errored: int
    """Ours."""


class PerModelUsageObject(BaseModel):
    """What a model read and wrote, judges included."""

    model_name: str
    invocation_count: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    total_tokens: int


class EvalRunObject(Listed):
    """A run as it is shown."""

    object: Literal["eval.run"] = "eval.run"
    eval_id: str
    created_at: UnixTime
    started_at: UnixTime | None
    """Ours, like the end."""
    finished_at: UnixTime | None
    status: RunStatus
    is_cancel_requested: bool
    """Ours: while it is `in_progress`, it will be `canceled` as soon as its worker sees that."""
    name: str
    model: str
    """Empty where nothing is sampled."""
    data_source: StoredJson
    """As ordered, header values redacted."""
    metadata: dict[str, str] | None
    error: EvalApiErrorObject | None
    report_url: str
    result_counts: ResultCountsObject
    per_testing_criteria_results: list[PerCriterionObject]
    per_model_usage: list[PerModelUsageObject]
    samples_per_row: int
    """Ours."""
    seed: int
    """Ours: samples follow from it."""
    rows: int | None
    """Ours: items, once they are counted."""
    figures: RunFigures | None
    """Ours: once the run is over; also of what is finished so far, where one run is asked for and it is not large."""


class EvalRunDeleted(BaseModel):
    """It is gone, with its output items."""

    object: Literal["eval.run.deleted"] = "eval.run.deleted"
    run_id: str
    deleted: Literal[True] = True


class OutputItemObject(Listed):
    """What became of one sample of one item."""

    object: Literal["eval.run.output_item"] = "eval.run.output_item"
    created_at: UnixTime
    run_id: str
    eval_id: str
    status: ItemStatus
    datasource_item_id: int
    """Its place among the items, from 0."""
    sample_index: int
    """Ours: which of the item's samples, from 0."""
    datasource_item: StoredJson
    sample: StoredJson
    results: list[StoredJson]
    """In the order of the criteria; `score` is null where there is no verdict, and `error` says whose doing that is.

    `request` and `reply`, ours: what the endpoint or the judge was sent and answered, shortened, without keys;
    `sub_requests` and `sub_replies` by part.
    """


class ComparisonObject(Comparison):
    """Ours: a run against another one of the same eval."""

    object: Literal["eval.run.comparison"] = "eval.run.comparison"
    eval_id: str
    run_id: str
    with_run_id: str


class ComparedRowObject(ComparedRow):
    """With the item itself."""

    datasource_item: StoredJson


class ComparedRowsObject(BaseModel):
    """Ours: the items that two runs have a verdict of, the largest change first."""

    object: Literal["list"] = "list"
    data: list[ComparedRowObject]
    total: int
    """Items of the change that was asked for."""
    has_more: bool


class VarianceObject(Variance):
    """Ours: how far the samples of each item spread."""

    object: Literal["eval.run.variance"] = "eval.run.variance"
    run_id: str
    criterion: str | None
    """Whose scores are looked at; null: whether samples pass."""
    data: list[RowSpread]
    """Items by their mean, lowest first, `row_index` their `datasource_item_id`; of more than `limit` every so many."""


def to_run_object(row: RunRow, eval_: EvalRow, counts: RunCounts | None, *, root: str) -> EvalRunObject:
    """`root`: the platform's address."""
    told = counts or RunCounts()
    names = [str(criterion["id"]) for criterion in eval_.testing_criteria]
    by_criterion = told.criteria or tuple((0, 0, 0) for _ in names)
    return EvalRunObject(
        id=row.id,
        eval_id=row.eval_id,
        created_at=int(row.created_at.timestamp()),
        started_at=None if row.started_at is None else int(row.started_at.timestamp()),
        finished_at=None if row.finished_at is None else int(row.finished_at.timestamp()),
        status=row.status,
        is_cancel_requested=row.is_cancel_requested,
        name=row.name,
        model=row.model,
        data_source=row.data_source,
        metadata=row.metadata,
        error=None if row.error is None else EvalApiErrorObject.model_validate(row.error.model_dump()),
        report_url=f"{root.rstrip('/')}/evals/{row.eval_id}/runs/{row.id}",
        result_counts=ResultCountsObject(
            total=told.samples,
            passed=told.passed,
            failed=told.failed,
            errored=told.errored,
        ),
        per_testing_criteria_results=[
            PerCriterionObject(testing_criteria=name, passed=passed, failed=failed, errored=errored)
            for name, (passed, failed, errored) in zip(names, by_criterion, strict=True)
        ],
        per_model_usage=[
            PerModelUsageObject(
                model_name=model,
                invocation_count=usage.calls,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                total_tokens=usage.prompt_tokens + usage.completion_tokens,
            )
            for model, usage in sorted(told.usage.items())
        ],
        samples_per_row=row.samples_per_row,
        seed=row.seed,
        rows=row.rows,
        figures=row.figures,
    )


def to_output_item_object(row: OutputItemRow, *, eval_id: str) -> OutputItemObject:
    """The row as it is shown."""
    return OutputItemObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        run_id=row.run_id,
        eval_id=eval_id,
        status=row.status,
        datasource_item_id=row.row_index,
        sample_index=row.sample_index,
        datasource_item=row.item,
        sample=row.sample,
        results=list(row.results),
    )


def shown_sample(
    *,
    model: str,
    prompt: list[JsonObject],
    output: list[JsonObject],
    finish_reason: str | None,
    error: JsonObject | None = None,
    usage: JsonObject | None = None,
    sampling: JsonObject | None = None,
    **ours: JsonValue,
) -> JsonObject:
    """A sample in the contract's shape; what nobody knows is null."""
    chosen = sampling or {}
    fields = {name: chosen.get(name) for name in ("max_completion_tokens", "seed", "temperature", "top_p")}
    return {
        "model": model,
        "input": cast("list[JsonValue]", prompt),
        "output": cast("list[JsonValue]", output),
        "finish_reason": finish_reason,
        "error": error,
        "usage": usage,
        **fields,
        **ours,
    }
