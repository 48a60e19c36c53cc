"""A platform whose models answer by script."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.served_models import ServedPlatform, scripted_platform


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory, base_model: Path
) -> Iterator[ServedPlatform]:
    with scripted_platform(emptied_database, tmp_path_factory.mktemp("home"), base_model) as running:
        yield running
