"""Reports of rehearsals that went well, to be changed."""

from typing import Any

from rft.core.failure import Stage
from rft.rollouts.rehearsal_report import EndpointReport, RehearsalReport


def endpoint(**changes: Any) -> EndpointReport:
    healthy = EndpointReport(
        stage=Stage.TOOL,
        name="search",
        url="https://example.com/search",
        calls=384,
        attempts=400,
        retries=16,
        failed_calls=0,
        errors_by_code={},
        error_share=0.0,
        rejections_by_status={},
        p50_ms=20.0,
        p95_ms=40.0,
        p99_ms=50.0,
        queued_p95_ms=0.0,
        answers_per_s=44.7,
        peak_in_flight=128,
        safe_concurrency=128,
        is_limit_found=False,
        example_of_failure=None,
    )
    return healthy.model_copy(update=changes)


def report(*endpoints: object, **changes: object) -> RehearsalReport:
    fields = {
        "rollouts": 128,
        "excluded_rollouts": 0,
        "excluded_share": 0.0,
        "unfinished_rollouts": 0,
        "unwritten_calls": 0,
        "wall_s": 2.5,
        "expected_step_s": 2.5,
        "own_delay_p95_ms": 1.0,
        "assumptions": (),
        "endpoints": endpoints,
    }
    return RehearsalReport.model_validate(fields | changes)
