"""A tool that refuses nearly every call is told with what to check; a few refusals may be chance."""

import pytest

from rft.core.refused_calls import FEW_CALLS, refusal_advice, refused_status


@pytest.mark.parametrize(
    ("refused", "calls", "status"),
    [
        ({}, 0, None),
        ({}, 100, None),
        ({404: 100}, 100, 404),
        ({404: 90}, 100, None),
        ({404: 91}, 100, 404),
        ({404: 40, 422: 55}, 100, 422),
        ({404: FEW_CALLS - 1}, FEW_CALLS - 1, None),
        ({404: FEW_CALLS}, FEW_CALLS, 404),
    ],
)
def test_nearly_every_call_is_more_than_chance(refused: dict[int, int], calls: int, status: int | None) -> None:
    assert refused_status(refused, calls) == status


@pytest.mark.parametrize(
    ("status", "to_check"),
    [
        (404, "check its URL"),
        (405, "check its URL"),
        (401, "check the header with its key"),
        (403, "check the header with its key"),
        (422, "check what it expects"),
    ],
)
def test_the_advice_follows_from_the_status(status: int, to_check: str) -> None:
    assert refusal_advice("search", status) == f"search answered {status} to nearly every call: {to_check}"
