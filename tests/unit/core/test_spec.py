"""Hyperparameters: every `auto` is resolved, and the burst is known beforehand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rft.core.egress_settings import EgressSettings
from rft.core.hyperparameters import Hyperparameters, group_size, resolve
from rft.core.spec import RunSpec

hyperparameters = st.builds(
    Hyperparameters,
    n_epochs=st.just("auto") | st.integers(1, 50),
    batch_size=st.just("auto") | st.integers(1, 256),
    compute_multiplier=st.just("auto") | st.floats(1e-4, 10),
    eval_interval=st.just("auto") | st.integers(1, 100),
    eval_samples=st.just("auto") | st.integers(1, 8),
)


@given(hyperparameters, st.integers(1, 50_000))
def test_every_row_is_seen_in_every_epoch(wanted: Hyperparameters, train_rows: int) -> None:
    resolved = resolve(wanted, train_rows=train_rows)
    rows_used = resolved.steps * resolved.batch_size
    assert rows_used >= train_rows * resolved.n_epochs
    assert rows_used - train_rows * resolved.n_epochs < resolved.batch_size
    assert resolved.batch_size <= train_rows
    assert resolved.burst == resolved.batch_size * resolved.group_size


@pytest.mark.parametrize(
    ("multiplier", "size"), [(1e-4, 2), (0.25, 2), (0.3, 2), (0.5, 4), (1, 8), (1.0625, 9), (2, 16), (10, 80)]
)
def test_the_multiplier_scales_the_group(multiplier: float, size: int) -> None:
    assert group_size(multiplier) == size


@pytest.mark.parametrize(
    "field",
    [
        {"n_epochs": 0},
        {"n_epochs": 51},
        {"batch_size": 257},
        {"learning_rate_multiplier": 0},
        {"learning_rate_multiplier": float("inf")},
        {"compute_multiplier": 1e-5},
        {"compute_multiplier": 10.1},
        {"eval_interval": 0},
        {"eval_samples": "many"},
    ],
)
def test_values_out_of_the_contracts_range_are_refused(field: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Hyperparameters.model_validate(field)


WRITTEN: dict[str, object] = {
    "job_id": "ftjob-1",
    "seed": 1,
    "base_model": "m",
    "model_name": "starter",
    "hyperparameters": resolve(Hyperparameters(), train_rows=400),
    "tools": [{"name": "search", "server_url": "http://127.0.0.1/tools"}],
    "grader": {"type": "endpoint", "name": "g", "url": "http://127.0.0.1/grade"},
}


def test_a_spec_survives_the_disk() -> None:
    spec = RunSpec.model_validate(WRITTEN)
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_spec_of_an_earlier_release_is_read() -> None:
    earlier = {"max_calls_in_flight": 7, "allow_loopback": False, "allow_cidrs": ["10.1.0.0/16"]}
    spec = RunSpec.model_validate(WRITTEN | earlier)
    assert spec.egress == EgressSettings(max_calls_in_flight=7, allow_loopback=False, allow_cidrs=("10.1.0.0/16",))
    assert spec == RunSpec.model_validate_json(spec.model_dump_json())
