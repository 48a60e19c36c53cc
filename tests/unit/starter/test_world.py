"""The warm-up world: its companies are nobody else's, and its reports cannot be found without reading."""

import random
from itertools import combinations

import pytest

from rft.platform.jobs.order_warnings import STARTER_TOOLS
from rft.starter.world import (
    NO_RESULTS,
    NO_SUCH_COMPANY,
    NO_SUCH_FILE,
    PROBE_COMPANIES,
    WARMUP_COMPANIES,
    YEARS,
    World,
)


@pytest.fixture
def world() -> World:
    return World.draw(random.Random(1), WARMUP_COMPANIES[:30])


def test_warm_up_and_probe_companies_share_no_name() -> None:
    assert len(set(WARMUP_COMPANIES) | set(PROBE_COMPANIES)) == 336
    assert len(PROBE_COMPANIES) == 36
    assert not set(WARMUP_COMPANIES) & set(PROBE_COMPANIES)


def test_company_and_year_always_bring_the_report_into_sight(world: World) -> None:
    rng = random.Random(2)
    for _ in range(100):
        question = world.question(rng)
        rows = world.search(f"{question.company} {question.year}").split("\n")
        assert question.path in rows
        assert rows == sorted(rows)
        assert len(rows) == 3


def test_company_alone_shows_three_of_five_years(world: World) -> None:
    rng = random.Random(3)
    questions = [world.question(rng) for _ in range(400)]
    seen = [question.path in world.search(question.company).split("\n") for question in questions]
    assert 0.45 < sum(seen) / len(seen) < 0.75


def test_best_match_is_not_always_printed_at_the_same_place(world: World) -> None:
    rng = random.Random(4)
    places: set[int] = set()
    for _ in range(100):
        question = world.question(rng)
        places.add(world.search(f"{question.company} {question.year}").split("\n").index(question.path))
    assert places == {0, 1, 2}


def test_pages_cannot_be_guessed() -> None:
    """Each page is as likely as any other, and the same question has another page in another world."""
    worlds = [World.draw(random.Random(seed), WARMUP_COMPANIES[:10]) for seed in range(20)]
    pages = [int(path.rsplit("/", 1)[1]) for world in worlds for path in world.reports]
    assert min(pages) == 10
    assert max(pages) == 99
    assert max(pages.count(page) for page in set(pages)) / len(pages) < 0.03
    for one, other in combinations(worlds[:5], 2):
        assert len(set(one.reports) & set(other.reports)) / len(one.reports) < 0.1


def test_list_tells_years_but_no_page(world: World) -> None:
    assert world.list(WARMUP_COMPANIES[0]).split("\n") == [str(year) for year in YEARS]


def test_nothing_found_is_told(world: World) -> None:
    assert world.search("nonsense") == NO_RESULTS
    assert world.list(PROBE_COMPANIES[0]) == NO_SUCH_COMPANY
    assert world.cat(f"{WARMUP_COMPANIES[0]}/2015") == NO_SUCH_FILE
    with pytest.raises(ValueError, match="unknown tool"):
        world.call("rm", "")


def test_the_answer_stands_in_the_report(world: World) -> None:
    rng = random.Random(5)
    for _ in range(100):
        question = world.question(rng)
        assert f"{question.metric}: {question.answer}" in world.cat(question.path).split("\n")
        assert question.metric in question.text
        assert question.company in question.text
        assert str(question.year) in question.text


def test_the_tools_of_this_world_are_those_that_orders_are_warned_by(world: World) -> None:
    """An order whose tools have other names is told that the starter cannot call them."""
    for name in STARTER_TOOLS:
        assert world.call(name, "x")
    for name in ("open_page", "Search", "", *(f"{name}s" for name in STARTER_TOOLS)):
        with pytest.raises(ValueError, match="tool"):
            world.call(name, "x")
