"""How evals, their runs and output items are shown: their fields, as data."""

from rft.platform.cli.answers import Answer, Resource, Shown, Styled, styled
from rft.platform.cli.formats import duration, number, one_line, share

_LONGEST_ANSWER = 80
_VERDICTS = {"pass": "green", "fail": "red", "error": "yellow"}


def _criteria(it: Answer) -> str | None:
    return ", ".join(criterion.get("name", str) or "?" for criterion in it.parts("testing_criteria")) or None


EVAL = Resource(
    fields="eval=id; name; source=data_source_config.type; criteria; created=created_at",
    none="no evals",
    columns="eval; name; criteria; created",
    spare="created; criteria",
    special={"criteria": _criteria},
)


def estimate(it: Answer | None, *, is_share: bool) -> str | None:
    """A mean with its interval."""
    if it is None:
        return None
    say = share if is_share else number
    mean, low, high = (it.get(name, float) for name in ("mean", "low", "high"))
    return f"{say(mean)} ({say(low)} to {say(high)} at 95%)"


def _without_interval(value: float | None, rows: int | None = None) -> str | None:
    """A mean over so many rows, where that is known; None without any."""
    if value is None:
        return None
    over = "" if rows is None else f" over {rows} {'row' if rows == 1 else 'rows'}"
    return f"{number(value)}{over}, no interval"


def _of_criteria(run: Answer) -> dict[str, Shown]:
    found: dict[str, Shown] = {}
    for criterion in run.parts("figures.criteria"):
        score = criterion.part("score")
        mean = estimate(score, is_share=False) or _without_interval(criterion.get("score_mean", float))
        if mean is not None:
            found[f"  {criterion.need('testing_criteria', str)}"] = mean
    p50_s, p95_s = (run.get(f"figures.latency.{name}", float) for name in ("p50_s", "p95_s"))
    latency = None if p50_s is None else f"{duration(p50_s)} in the middle, {duration(p95_s)} for one in twenty"
    errors = run.named("figures.errored_by_code", int)
    return {
        **({"score by criterion": "mean with interval"} if found else {}),
        **found,
        "pass@k": ", ".join(f"{k}: {share(rate)}" for k, rate in run.named("figures.pass_at_k", float).items()) or None,
        "latency": latency,
        "without a verdict": ", ".join(f"{code}: {count}" for code, count in errors.items()) or None,
    }


EVAL_RUN = Resource(
    fields="run=id; name; state=status; error=error.message; model; items=rows; samples of each={samples_per_row};"
    " passed={result_counts.passed} of {result_counts.total}; errors=result_counts.errored; pass rate;"
    " tokens={figures.prompt_tokens:,} read, {figures.completion_tokens:,} written;"
    " cost={figures.cost:.4g}; created=created_at;"
    " finished=finished_at",
    none="no runs",
    columns="run; name; model; state; >passed; >errors; pass rate; created",
    spare="created; name; model",
    special={"pass rate": lambda run: estimate(run.part("figures.passed"), is_share=True)},
    more=_of_criteria,
)


def _verdict(item: Answer) -> Styled:
    status = item.need("status", str)
    return styled(status, _VERDICTS.get(status, "yellow"))


def _answer(item: Answer) -> str | None:
    said = [message.get("content", str) or "" for message in item.parts("sample.output")]
    return one_line(said[-1], limit=_LONGEST_ANSWER) if said else None


def _results(item: Answer) -> str:
    results: list[str] = []
    for result in item.parts("results"):
        error = result.part("error")
        said = number(result.get("score", float)) if error is None else error.get("code", str) or "?"
        results.append(f"{result.get('name', str) or '?'}: {said}")
    return "; ".join(results)


OUTPUT_ITEM = Resource(
    fields="output item=id; item=datasource_item_id; sample=sample_index; verdict; answer; results;"
    " why=sample.error.message; trace=sample.trace_id",
    none="no output items",
    columns=">item; >sample; verdict; answer; results",
    spare="sample; results",
    special={"verdict": _verdict, "answer": _answer, "results": _results},
)


def _difference(it: Answer | None, *, is_share: bool) -> str | None:
    if it is None:
        return None
    say = share if is_share else number
    difference, low, high = (it.get(name, float) or 0.0 for name in ("difference", "low", "high"))
    counts = ", ".join(f"{it.get(name, int) or 0} {name}" for name in ("better", "worse", "same"))
    return f"{say(difference)} ({say(low)} to {say(high)} at 95%): {counts}"


def _compared(comparison: Answer) -> dict[str, Shown]:
    of_criteria = {
        f"  {criterion.need('testing_criteria', str)}": _difference(criterion.part("score"), is_share=False)
        or _without_interval(criterion.get("score_difference", float), criterion.get("rows", int))
        for criterion in comparison.parts("criteria")
    }
    named = {
        "items only of this run": "only_here",
        "items only of the other": "only_there",
        "items without a verdict": "without_verdict",
    }
    lists = {title: ", ".join(map(str, comparison.listed(path, int))) or None for title, path in named.items()}
    return {"passing": _difference(comparison.part("passed"), is_share=True), **of_criteria, **lists}


COMPARISON = Resource(fields="run=run_id; less=with_run_id; items compared=rows", more=_compared)
