"""A hosted service with evals."""

from collections.abc import Iterator

import pytest

from tests.integration.evals_export.hosted_evals import HostedEvals


@pytest.fixture
def hosted() -> Iterator[HostedEvals]:
    with HostedEvals() as service:
        yield service
