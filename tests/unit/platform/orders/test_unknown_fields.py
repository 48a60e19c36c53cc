"""Fields that nobody knows: one that is surely meant for another is refused, and not without end are they compared."""

from typing import Any

import pytest

from rft.platform.api.errors import BadRequest
from rft.platform.evals.run_schemas import RunCreate
from rft.platform.evals.schemas import OTHER_NAMES
from rft.platform.orders.unknown_fields import refuse_misspelled


def run(row: dict[str, Any], rows: int = 1, **fields: Any) -> RunCreate:
    content = [{"item": {"n": number}, **row} for number in range(rows)]
    source = {"type": "file_content", "content": content}
    return RunCreate.model_validate({"data_source": {"type": "jsonl", "source": source}, **fields})


def test_a_field_that_every_row_has_hides_no_misspelled_one() -> None:
    with pytest.raises(BadRequest, match="Did you mean 'metadata'") as refused:
        refuse_misspelled(run({"row_id": 1}, rows=2_000, metdata={}), other_names=OTHER_NAMES)
    assert refused.value.param == "metdata"


def test_only_so_many_names_are_compared() -> None:
    strange = {f"strange_{number}": 1 for number in range(1_000)}
    refuse_misspelled(run({}, **strange, metdata={}), other_names=OTHER_NAMES)
