"""A body with a problem for nearly each of its bytes is refused without looking at all of them."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rft.platform.api.error_handlers import to_bad_request
from rft.platform.evals.run_schemas import FileContent
from rft.platform.orders.grader_schemas import MultiGrader
from rft.platform.orders.message_parts import MAX_PARTS
from rft.platform.serving.responses.schemas import ResponseBody

MANY = 100_000
PARTS = {f"g{number}": 1 for number in range(MANY)}
NAMED = [{"name": name} for name in PARTS]


class Counted(Sequence[ErrorDetails]):
    """Counts what of it is looked at."""

    def __init__(self, errors: list[ErrorDetails]) -> None:
        self.errors, self.seen = errors, 0

    def __len__(self) -> int:
        return len(self.errors)

    @overload
    def __getitem__(self, at: int) -> ErrorDetails: ...
    @overload
    def __getitem__(self, at: slice) -> list[ErrorDetails]: ...
    def __getitem__(self, at: int | slice) -> ErrorDetails | list[ErrorDetails]:
        found = self.errors[at]
        self.seen += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[ErrorDetails]:
        return (self[at] for at in range(len(self)))


def test_of_very_many_problems_a_few_are_looked_at() -> None:
    errors = Counted(
        [ErrorDetails(type="extra_forbidden", loc=("body", str(at)), msg="no", input=1) for at in range(MANY)]
    )
    refusal = to_bad_request(errors, dict.fromkeys(map(str, range(MANY)), 1))
    assert (refusal.code, refusal.param, refusal.message) == ("unknown_parameter", "0", "Invalid '0': no.")
    assert errors.seen < 100


@pytest.mark.parametrize(
    ("model", "body"),
    [
        pytest.param(ResponseBody, {"model": "m", "input": "a", "include": [1] * MANY}, id="include"),
        pytest.param(FileContent, {"type": "file_content", "content": [1] * MANY}, id="inline items"),
        pytest.param(MultiGrader, {"type": "multi", "graders": PARTS, "calculate_output": "1"}, id="parts"),
        pytest.param(MultiGrader, {"type": "multi", "graders": NAMED, "calculate_output": "1"}, id="named parts"),
    ],
)
def test_a_list_of_nothing_but_mistakes_is_one_mistake(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        model.model_validate(body)
    assert raised.value.error_count() == 1


def test_too_many_parts_of_a_grader_are_counted_for_their_author() -> None:
    parts = dict.fromkeys([*PARTS][:1_000], 1)
    with pytest.raises(ValidationError, match=f"must be {MAX_PARTS} graders at most, not 1000"):
        MultiGrader.model_validate({"type": "multi", "graders": parts, "calculate_output": "1"})
