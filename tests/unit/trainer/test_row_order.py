"""The order of rows: every epoch a permutation, every batch without repetition, nothing dropped."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.messages import ToolSchema
from rft.core.spec import ToolServer
from rft.rollouts.group import with_job_tools
from rft.trainer.data import BadDataset, RowPlace, read_rows, row_order, spare_rows


@given(rows=st.integers(1, 40), batch_size=st.integers(1, 16), epochs=st.integers(1, 4), seed=st.integers(0, 99))
def test_each_epoch_has_each_row_once_and_no_batch_has_a_row_twice(
    rows: int, batch_size: int, epochs: int, seed: int
) -> None:
    wanted = resolve(Hyperparameters(n_epochs=epochs, batch_size=batch_size), train_rows=rows)
    batches = row_order(rows=rows, batch_size=wanted.batch_size, steps=wanted.steps, seed=seed)
    assert [len(batch) for batch in batches] == [wanted.batch_size] * wanted.steps
    for batch in batches:
        assert len({place.row_index for place in batch}) == len(batch)
    places = Counter(place for batch in batches for place in batch)
    assert set(places.values()) == {1}
    assert {place for place in places if place.epoch < epochs} == {
        RowPlace(row, epoch) for row in range(rows) for epoch in range(epochs)
    }


def test_the_order_depends_on_the_seed_alone_and_not_on_the_number_of_steps() -> None:
    long = row_order(rows=7, batch_size=3, steps=20, seed=5)
    assert row_order(rows=7, batch_size=3, steps=4, seed=5) == long[:4]
    assert row_order(rows=7, batch_size=3, steps=20, seed=6) != long


@given(rows=st.integers(2, 40), batch_size=st.integers(1, 16), left_out=st.integers(0, 39), seed=st.integers(0, 99))
def test_the_order_of_other_rows_does_not_hang_on_one_that_is_left_out(
    rows: int, batch_size: int, left_out: int, seed: int
) -> None:
    """A run that is resumed with another context limit goes on where it was."""
    left_out, batch_size = left_out % rows, min(batch_size, rows - 1)
    steps = rows // batch_size
    whole = row_order(rows=rows, batch_size=batch_size, steps=steps, seed=seed)
    without = row_order(rows=rows, batch_size=batch_size, steps=steps, seed=seed, left_out={left_out})
    others = [place.row_index for batch in whole for place in batch if place.row_index != left_out]
    first_epoch = [place.row_index for batch in without for place in batch if place.epoch == 0]
    assert first_epoch[: len(others)] == others
    assert left_out not in {place.row_index for batch in without for place in batch}
    before = next((i for i, batch in enumerate(whole) if RowPlace(left_out, 0) in batch), steps)
    assert without[:before] == whole[:before]


@given(rows=st.integers(1, 40), batch_size=st.integers(1, 16), step=st.integers(1, 4), seed=st.integers(0, 99))
def test_spare_rows_are_all_that_a_step_does_not_have(rows: int, batch_size: int, step: int, seed: int) -> None:
    batch = row_order(rows=rows, batch_size=min(batch_size, rows), steps=4, seed=seed)[step - 1]
    spare = spare_rows(rows=rows, batch=batch, step=step, seed=seed)
    assert sorted(place.row_index for place in (*spare, *batch)) == list(range(rows))
    assert {place.epoch for place in spare} <= {batch[0].epoch}


def test_a_row_that_is_left_out_is_no_spare_one() -> None:
    spare = spare_rows(rows=5, batch=[RowPlace(3, 0)], step=1, seed=5, left_out={0, 4})
    assert sorted(place.row_index for place in spare) == [1, 2]


@given(left_out=st.sets(st.integers(0, 19), max_size=10))
def test_the_order_of_spare_rows_does_not_hang_on_those_that_are_left_out(left_out: set[int]) -> None:
    batch = [RowPlace(3, 0)]
    whole = spare_rows(rows=20, batch=batch, step=1, seed=5)
    found = spare_rows(rows=20, batch=batch, step=1, seed=5, left_out=left_out)
    assert found == [place for place in whole if place.row_index not in left_out]


def test_each_step_draws_its_spare_rows_anew() -> None:
    batch = [RowPlace(3, 0)]
    orders = {step: spare_rows(rows=40, batch=batch, step=step, seed=5) for step in (1, 2)}
    assert orders[1] != orders[2]
    assert orders[1] == spare_rows(rows=40, batch=batch, step=1, seed=5)
    assert orders[1] != spare_rows(rows=40, batch=batch, step=1, seed=6)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n\n{"messages": []}\n')
    with pytest.raises(BadDataset, match=r"train\.jsonl: line 3 at messages"):
        read_rows(path)


def test_rows_without_tools_get_those_the_job_describes(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    question = '"messages": [{"role": "user", "content": "?"}]'
    own = '"tools": [{"type": "function", "function": {"name": "own"}}]'
    path.write_text(
        f'{{{question}}}\n{{{question}, {own}}}\n{{{question}, "tools": []}}\n{{{question}, "tools": null}}'
    )
    described = ToolSchema(name="search", parameters={"type": "object"})
    tools = [
        ToolServer(name="search", server_url="http://a/", schema_of_job=described),
        ToolServer(name="other", server_url="http://a/"),
    ]
    rows = read_rows(path)
    assert [[tool.name for tool in row.tools] for row in with_job_tools(rows, tools)] == [
        ["search"], ["own"], [], ["search"],
    ]  # fmt: skip
    assert [row.item for row in with_job_tools(rows, tools)] == [row.item for row in rows], "the customer's row is kept"
    assert with_job_tools(rows, tools[1:]) == rows


def test_a_bad_line_is_reported_under_the_file_it_is_in(tmp_path: Path) -> None:
    path = tmp_path / "valid.jsonl"
    path.write_text("no json")
    with pytest.raises(BadDataset, match="line 1") as problem:
        read_rows(path, param="validation_file")
    assert problem.value.param == "validation_file"
