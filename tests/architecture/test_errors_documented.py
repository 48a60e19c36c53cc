"""`docs/errors.md` names every code that the API answers with, and the status that comes with it."""

import ast
import re
from collections import defaultdict

import pytest

from rft.platform.api import errors
from rft.platform.api.error_handlers import MethodNotAllowed
from rft.platform.rollout_inbox.guard import Stale
from tests.shared.code_tables import tables
from tests.shared.written_codes import ROOT, Given, given

PAGE = ROOT / "docs" / "errors.md"
FAILED = "Failed rehearsals, regrades and runs of evals"
WORKERS = ("rft.platform.worker.run_eval", "rft.platform.worker.run_rehearsal")
CLASSES = (
    errors.ApiError,
    errors.BadRequest,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.TooLarge,
    errors.Unavailable,
    MethodNotAllowed,
    Stale,
)
"""All but `ClientGone`, whose reply nobody reads."""
STATUSES = {cls.__name__: cls.status for cls in CLASSES} | {
    "refused": 400,
    "bad_request": 400,
    "unavailable": 503,
    "_unavailable": 503,
}
"""By what makes the error: its class, or a function that is given the code."""
SERVING_KINDS = {"bad_request": 400, "not_found": 404, "unavailable": 503, "broken": 500}
"""What a model's process refuses with."""
PLACES = {name: None for name in STATUSES} | {"Refused": None, "_unavailable": 1}
AT_RUNTIME: dict[str, set[str]] = {
    "rft.platform.api.error_handlers: _code(first['type'])": {"unknown_parameter", "invalid_value"},
    "rft.platform.dry_runs.estimate: f'invalid_{param}'": {
        "invalid_training_file",
        "invalid_validation_file",
        "invalid_test_file",
    },
    "rft.platform.jobs.order_checks: f'invalid_{param}'": {
        "invalid_training_file",
        "invalid_validation_file",
        "invalid_test_file",
    },
    "rft.platform.files.receiving: f'{file.noun}_too_large'": {"file_too_large", "part_too_large"},
    "rft.platform.orders.probing: f'{target.stage}_unreachable'": {"tool_unreachable", "grader_unreachable"},
    "rft.platform.registry.resolution: f'{kind}_not_found'": {"tool_not_found", "grader_not_found"},
    "rft.platform.registry.service: f'{kind}_not_found'": {"tool_not_found", "grader_not_found"},
    # Codes of `docs/blame.md`, which the page says.
    "rft.platform.dry_runs.service: str(result.failure.code)": set(),
    "rft.platform.dry_runs.service: result.error_code": set(),
    # Handed on from where they were made.
    "rft.platform.evals.run_checks: error.code": set(),
    "rft.platform.jobs.creation: unknown.code": set(),
    "rft.platform.serving.refused: code": set(),
    "rft.platform.serving.playground.endpoints: error.code": set(),
    "rft.platform.serving.processes: code": set(),
    "rft.platform.serving.service: refused.code": set(),
    "rft.serving.refusals: code": set(),
}
"""Codes that are put together while the program runs, by the place and what stands there."""


@pytest.fixture(scope="module")
def made() -> list[Given]:
    return list(given(PLACES, ("rft.platform.", "rft.serving.")))


def replies() -> dict[str, list[str]]:
    """The cells by code of all tables but the last one's, in which each code stands once."""
    sections = [
        tables(PAGE, heading) for heading in re.findall("^## (.+)$", PAGE.read_text(), re.M) if heading != FAILED
    ]
    merged = {code: cells for section in sections for code, cells in section.items()}
    assert len(merged) == sum(map(len, sections)), "a code stands twice"
    return merged


def _status(error: Given) -> int:
    if error.to in STATUSES:
        return STATUSES[error.to]
    assert error.call is not None
    kind = next(keyword.value for keyword in error.call.keywords if keyword.arg == "kind")
    assert isinstance(kind, ast.Constant)
    return SERVING_KINDS[str(kind.value)]


def test_each_place_whose_codes_cannot_be_read_is_known(made: list[Given]) -> None:
    assert {str(error) for error in made if not error.codes} == set(AT_RUNTIME)


def test_the_page_names_each_code_with_its_statuses_and_no_other(made: list[Given]) -> None:
    statuses = defaultdict[str, set[int]](set)
    for error in made:
        for code in error.codes or AT_RUNTIME[str(error)]:
            statuses[code].add(_status(error))
    page = {code: {int(status) for status in cells[0].split(", ")} for code, cells in replies().items()}
    assert page == statuses


def test_every_kind_of_error_is_looked_for() -> None:
    assert {cls.__name__ for cls in errors.ApiError.__subclasses__()} - {"ClientGone"} <= set(STATUSES)


def test_the_page_says_what_each_code_means_and_what_to_do() -> None:
    assert [code for code, cells in replies().items() if not all(cells)] == []


def test_the_page_names_each_code_of_what_failed_after_it_was_ordered() -> None:
    orders = ("rft.platform.regrades.", "rft.platform.rehearsals.", *WORKERS)
    found = [
        *given({"JobError": None, "CannotRegrade": 0}, orders),
        *given({"_failed": 0}, WORKERS),
        *given({"NothingAnswered": None}, ("rft.platform.worker.eval_sampling",)),
    ]
    assert {one.module for one in found if not one.codes} == {"rft.platform.regrades.running", *WORKERS}
    assert set(tables(PAGE, FAILED)) == {code for one in found for code in one.codes}
