"""The warm-up world: companies, reports and the three tools, imitating the example server without sharing code with it.

Only companies that no example dataset uses live here, so that what the starter has seen never answers a question.
"""

import random
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

# fmt: off
ADJECTIVES = [
    "Alpine", "Amber", "Arctic", "Atlas", "Bright", "Cedar", "Coastal", "Copper", "Crystal", "Delta", "Eagle",
    "Evergreen", "Golden", "Granite", "Harbor", "Iron", "Lunar", "Maple", "Noble", "Pacific", "Prime", "Silver",
    "Summit", "Vertex",
]
INDUSTRIES = [
    "Airlines", "Analytics", "Apparel", "Bank", "Biotech", "Brewing", "Chemicals", "Devices", "Energy", "Foods",
    "Freight", "Gaming", "Hotels", "Insurance", "Logistics", "Media", "Mining", "Motors", "Networks", "Paper",
    "Pharma", "Robotics", "Steel", "Textiles",
]
# fmt: on
METRICS = ["revenue", "profit", "assets", "debt", "cash", "costs", "taxes", "equity", "capex", "dividends"]
YEARS = tuple(range(2015, 2020))
QUESTIONS = ("What was the {metric} of {company} in {year}?", "In {year}, what was {metric} at {company}?")

_SPLIT_SEED = 20
_EXAMPLE_COMPANIES = 240
_PROBE_COMPANIES = 36
_METRICS_PER_REPORT = 5
_SEARCH_ROWS = 3
_YEAR_WEIGHT = 0.5
_WORD = re.compile(r"[a-z]+|\d+")

NO_RESULTS = "no results"
NO_SUCH_COMPANY = "no such company"
NO_SUCH_FILE = "no such file"


def _companies() -> list[str]:
    names = [f"{adjective} {industry}" for adjective in ADJECTIVES for industry in INDUSTRIES]
    random.Random(_SPLIT_SEED).shuffle(names)
    return names


WARMUP_COMPANIES = tuple(_companies()[_EXAMPLE_COMPANIES:-_PROBE_COMPANIES])
"""Companies of the warm-up traces."""
PROBE_COMPANIES = tuple(_companies()[-_PROBE_COMPANIES:])
"""Companies kept out of the warm-up, for the probes; no example uses them either."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one number of one report."""

    text: str
    company: str
    year: int
    metric: str
    path: str
    answer: int


@dataclass(frozen=True)
class World:
    """A pile of reports by path, and the tools that read it."""

    reports: Mapping[str, str]

    @classmethod
    def draw(cls, rng: random.Random, companies: Sequence[str]) -> "World":
        """Fresh reports of these companies. The page in a path is random: it cannot be guessed from a question."""
        reports: dict[str, str] = {}
        for company in companies:
            for year in YEARS:
                metrics = rng.sample(METRICS, _METRICS_PER_REPORT)
                text = "\n".join(f"{metric}: {rng.randint(10, 99)}" for metric in metrics)
                reports[f"{company}/{year}/{rng.randint(10, 99)}"] = text
        return cls(reports)

    def question(self, rng: random.Random) -> Question:
        """A question that one of the reports answers."""
        path = rng.choice(self._paths)
        company, year, _ = path.split("/")
        metric, value = rng.choice(self.rows(path))
        text = rng.choice(QUESTIONS).format(metric=metric, company=company, year=year)
        return Question(text, company, int(year), metric, path, value)

    def rows(self, path: str) -> list[tuple[str, int]]:
        """Metric and value of each line of a report."""
        return [(metric, int(value)) for metric, value in (row.split(": ") for row in self.reports[path].split("\n"))]

    def search(self, query: str) -> str:
        """The best paths by word overlap, a year counting half; printed by path, so that the rows must be read."""
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(_WORD.findall(query.lower())):
            for path in self._paths_by_word.get(word, ()):
                scores[path] += _YEAR_WEIGHT if word.isdigit() else 1.0
        best = sorted(scores, key=lambda path: (-scores[path], zlib.crc32(f"{query}|{path}".encode())))
        return "\n".join(sorted(best[:_SEARCH_ROWS])) or NO_RESULTS

    def list(self, path: str) -> str:
        """The years of a company: never needed, always affordable."""
        return "\n".join(self._years_by_company.get(path.strip().lower(), ())) or NO_SUCH_COMPANY

    def cat(self, path: str) -> str:
        """The text of a report."""
        return self.reports.get(path.strip(), NO_SUCH_FILE)

    def call(self, name: str, argument: str) -> str:
        """Output of a tool by name. Raises ValueError when there is no such tool."""
        match name:
            case "search":
                return self.search(argument)
            case "list":
                return self.list(argument)
            case "cat":
                return self.cat(argument)
            case _:
                raise ValueError(f"unknown tool {name!r}")

    @cached_property
    def _paths(self) -> Sequence[str]:
        return tuple(self.reports)

    @cached_property
    def _paths_by_word(self) -> Mapping[str, Sequence[str]]:
        index: dict[str, list[str]] = defaultdict(list)
        for path in self.reports:
            company, year, _ = path.split("/")
            for word in (*_WORD.findall(company.lower()), year):
                index[word].append(path)
        return index

    @cached_property
    def _years_by_company(self) -> Mapping[str, Sequence[str]]:
        index: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.reports):
            company, year, _ = path.split("/")
            index[company.lower()].append(year)
        return index


ARGUMENT_NAMES = {"search": "query", "list": "path", "cat": "path"}
"""The one argument of each tool."""
