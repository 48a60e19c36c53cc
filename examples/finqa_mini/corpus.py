"""A small pile of company reports: 240 companies, five years each, five numbers per report.

The pile is the same on every machine, so that server and dataset always agree. Training, validation and test questions
are about companies of their own, and the page in a report's path is random: an agent cannot guess a path, it must
search for it.
"""

import random
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass

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
YEARS = range(2015, 2020)

SPLIT_SEED = 20
REPORTS_SEED = 2026
VALIDATION_COMPANIES = 60
TRAINING_COMPANIES = 120
TEST_COMPANIES = 60


@dataclass(frozen=True)
class Report:
    """One year of one company."""

    company: str
    year: int
    path: str
    rows: tuple[tuple[str, int], ...]
    """Metric and value."""

    @property
    def text(self) -> str:
        """What `cat` prints."""
        return "\n".join(f"{metric}: {value}" for metric, value in self.rows)


@dataclass(frozen=True)
class Companies:
    """Names of the companies that the questions of each split are about; no company is in two of them."""

    training: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


def companies() -> Companies:
    """The same on every machine."""
    names = [f"{adjective} {industry}" for adjective in ADJECTIVES for industry in INDUSTRIES]
    random.Random(SPLIT_SEED).shuffle(names)
    training, test = VALIDATION_COMPANIES, VALIDATION_COMPANIES + TRAINING_COMPANIES
    return Companies(
        training=tuple(names[training:test]),
        validation=tuple(names[:training]),
        test=tuple(names[test : test + TEST_COMPANIES]),
    )


def write_reports() -> list[Report]:
    """All reports, those of all splits in one pile."""
    rng = random.Random(REPORTS_SEED)
    split = companies()
    reports: list[Report] = []
    for company in (*split.training, *split.test, *split.validation):
        for year in YEARS:
            rows = tuple((metric, rng.randint(10, 99)) for metric in rng.sample(METRICS, 5))
            reports.append(Report(company, year, f"{company}/{year}/{rng.randint(10, 99)}", rows))
    return reports


class Library:
    """The three tools over a pile of reports."""

    def __init__(self, reports: list[Report]) -> None:
        self._texts = {report.path: report.text for report in reports}
        self._paths_by_word: dict[str, list[str]] = defaultdict(list)
        self._years_by_company: dict[str, list[str]] = defaultdict(list)
        for report in sorted(reports, key=lambda report: report.path):
            self._years_by_company[report.company.lower()].append(str(report.year))
            for word in (*_words(report.company), str(report.year)):
                self._paths_by_word[word].append(report.path)

    def __len__(self) -> int:
        return len(self._texts)

    def search(self, query: str) -> str:
        """The three best paths by words in common, a year counting half. Sorted by path: the reader must choose."""
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(_words(query)):
            for path in self._paths_by_word.get(word, ()):
                scores[path] += 0.5 if word.isdigit() else 1.0
        ranked = sorted(scores, key=lambda path: (-scores[path], zlib.crc32(f"{query}|{path}".encode())))
        return "\n".join(sorted(ranked[:3])) or "no results"

    def list(self, path: str) -> str:
        """The years for which a company has a report."""
        return "\n".join(self._years_by_company.get(path.strip().lower(), ())) or "no such company"

    def cat(self, path: str) -> str:
        """The text of a report."""
        return self._texts.get(path.strip(), "no such file")


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+", text.lower())
