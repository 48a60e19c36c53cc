"""What has to agree in two places is written in one, or held together here."""

import re
from pathlib import Path

from rft.core.messages import CallMistake
from rft.gateway_service.jobs import FORGET_AFTER_S
from rft.platform.store.advisory_locks import AdvisoryLock

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SOURCES = tuple(
    path
    for root in ("core", "platform", "tool_gateway", "grader_gateway", "trainer")
    for path in (ROOT / root).rglob("*.py")
)


def naming(pattern: str) -> list[str]:
    """The source files that hold it."""
    return sorted(path.relative_to(ROOT).as_posix() for path in SOURCES if re.search(pattern, path.read_text()))


def test_advisory_locks_are_taken_in_one_file_each_by_its_own_number() -> None:
    assert naming(r"pg_\w*advisory\w*lock") == ["platform/rft/platform/store/advisory_locks.py"]
    assert len({lock.value for lock in AdvisoryLock.__members__.values()}) == len(AdvisoryLock.__members__)
    assert min(AdvisoryLock) > 2**31 - 1, "below are the locks of hosts, whose numbers are hashes"


def test_an_unreadable_call_is_worded_once() -> None:
    code = CallMistake.UNREADABLE_CALL.value
    assert naming(rf'"{code}"') == naming("tool call could not be read") == ["core/rft/core/messages.py"]


def test_the_gateways_page_says_how_long_a_service_remembers_a_job() -> None:
    page = (ROOT / "docs" / "gateways.md").read_text()
    assert f"after {FORGET_AFTER_S / 60:.0f} minutes in which nothing was heard of the job" in page


def test_rows_are_parsed_where_a_process_first_meets_them_and_handed_on_parsed() -> None:
    """A trainer, its evaluation, an upload, a rehearsal, a look back, a dry run, a playground, baselines; no step."""
    assert naming(r"(?<!def )\bparse_rows?[(,]") == [
        "core/rft/core/dataset.py",
        "core/rft/core/dataset_report.py",
        "core/rft/testing/samplers_oracle.py",
        "platform/rft/platform/dry_runs/service.py",
        "platform/rft/platform/jobs/rows.py",
        "platform/rft/platform/rehearsals/sample.py",
        "platform/rft/platform/serving/playground/order.py",
        "platform/rft/platform/worker/baselines.py",
        "trainer/rft/trainer/data.py",
    ]
    assert naming(r"(?<!def )\bread_rows\(") == ["trainer/rft/trainer/evaluate.py", "trainer/rft/trainer/run.py"]


def test_what_platform_and_trainer_share_of_a_run_directory_is_written_once() -> None:
    assert naming(r"layout\.LOCK") == ["core/rft/run_directory/lock.py"]
    assert naming(r"layout\.SPEC") == ["core/rft/run_directory/files.py"]
    assert naming(r"\{\"seq\":\\s") == ["core/rft/run_directory/event_log.py"]


def test_what_graders_see_is_one_type_and_which_kind_they_are_is_asked_once() -> None:
    assert naming(r"prompt_messages: int") == ["core/rft/core/finished_trace.py"]
    assert naming(r"(?<!def )\bopen_group_grader\(") == ["grader_gateway/rft/grader_gateway/build.py"]
