"""Blame is total: every code has one fault."""

import pytest

from rft.core.failure import FAULTS, Failure, FailureCode, Fault, Stage


def test_every_code_has_a_fault() -> None:
    assert set(FAULTS) == set(FailureCode)
    assert set(FAULTS.values()) == set(Fault)


@pytest.mark.parametrize("code", FailureCode)
def test_a_failure_knows_whose_fault_it_is(code: FailureCode) -> None:
    assert Failure(stage=Stage.TOOL, code=code, message="m").fault is FAULTS[code]
