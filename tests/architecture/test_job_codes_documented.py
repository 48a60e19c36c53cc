"""`docs/training.md` names every code that a job's events, its pause and its failure may have."""

import pytest

from rft.chat.errors import ChatTemplateError
from rft.core.errors import SamplerError
from rft.core.failure import FailureCode
from rft.rollouts.failure_actions import FAILURE_ACTIONS, FailureAction
from rft.trainer.data import BadDataset
from rft.trainer.error_fields import error_fields
from tests.shared.code_tables import tables
from tests.shared.written_codes import ROOT, Given, calling, given, in_dictionaries

PAGE = ROOT / "docs" / "training.md"
RUNS = ("rft.run_directory.", "rft.engines.", "rft.rollouts.", "rft.trainer.")
"""What a run consists of."""

OF_THE_ORDER = {code.value for code, action in FAILURE_ACTIONS.items() if action is FailureAction.FAIL_JOB} | {
    FailureCode.INVALID_SCORE.value
}
FAILED_AT_RUNTIME = {
    "rft.trainer.run_health: unrecoverable.code.value": OF_THE_ORDER,
    "rft.trainer.run_health: code": {"grader_failed", "tool_failed", "platform_failure"},
    "rft.platform.worker.dataset_findings: f'invalid_{param}'": {
        "invalid_training_file",
        "invalid_validation_file",
        "invalid_test_file",
    },
    "rft.platform.worker.ingest: ended.error_code or 'training_failed'": {"training_failed"},
    "rft.platform.worker.preparation: code": set[str](),  # Of `CannotRun`, which is looked for by itself.
    "rft.platform.worker.job_run: paused.code": set[str](),  # Of `RunPaused`, which pauses the job.
}
"""Codes of failures that are put together while the program runs, by the place and what stands there."""
TOLD_AT_RUNTIME = {
    "rft.rollouts.shards.told: f'{code}_down'": {"inbox_down", "broker_down"},
    "rft.rollouts.shards.told: f'{code}_up'": {"inbox_up", "broker_up"},
    "rft.platform.worker.ingest: code": {"final_figures", "no_improvement", "no_estimate"},
    "rft.platform.worker.ingest: notice.code": set[str](),  # Of `Notice`, which is looked for by itself.
    "rft.platform.jobs.creation: warning.code": set[str](),  # The same of `OrderWarning`.
}
"""The same of events."""


def read(found: list[Given], at_runtime: dict[str, set[str]]) -> set[str]:
    """All codes of these places, of which those that cannot be read are all known."""
    assert {str(one) for one in found if not one.codes} == set(at_runtime)
    return {code for one in found for code in one.codes}.union(*at_runtime.values())


def test_the_page_names_each_reason_of_a_pause() -> None:
    assert set(tables(PAGE, "How a job pauses")) == read(
        list(given({"RunPaused": 0}, (*RUNS, "rft.platform.worker."))), {}
    )


def test_the_page_names_each_code_of_a_failed_job() -> None:
    modules = ("validate_job", "dataset_findings", "ingest", "preparation", "job_run")
    workers = [f"rft.platform.worker.{name}" for name in modules]
    found = [*given({"RunFailed": 0}, RUNS), *given({"CannotRun": 0, "JobError": None}, workers)]
    raised = (BadDataset("", ""), ChatTemplateError(), SamplerError(), MemoryError(), Exception())
    codes = read(found, FAILED_AT_RUNTIME) | {error_fields(error)[0] for error in raised}
    assert set(tables(PAGE, "How a job fails")) == codes


@pytest.mark.lengthy
def test_the_page_names_each_code_of_an_event() -> None:
    notices = given({"Notice": None, "_notice": 2}, ("rft.trainer.", "rft.rollouts."))
    warnings = given({"OrderWarning": 0}, ("rft.platform.",))
    written = [*notices, *warnings, *in_dictionaries([*calling("add_event"), *calling("DatasetWarning")])]
    assert set(tables(PAGE, "Events")) == read(written, TOLD_AT_RUNTIME)
