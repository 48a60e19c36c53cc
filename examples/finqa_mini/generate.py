"""Write the questions: `train.jsonl` (400 rows), `valid.jsonl` and `test.jsonl` (200 rows each).

Each file asks about companies of its own. Train on the first, choose a checkpoint by the second, and tell what the
third says: it has chosen nothing.

    python examples/finqa_mini/generate.py --out var/finqa_mini --seed 1

`messages` and `tools` are read by the platform; all other keys are ours and come back to tools and grader as `item`.
"""

import argparse
import json
import random
from pathlib import Path

from corpus import Report, companies, write_reports

TRAIN_ROWS, VALID_ROWS, TEST_ROWS = 400, 200, 200
INSTRUCTIONS = (
    "Find the company's report with search, then read it with cat. "
    "End with the metric and its number in a line of this form: Answer: revenue: 42"
)
"""Only with `--instruct`: the starter knows it, and would have to learn its rows anew."""
QUESTIONS = ("What was the {metric} of {company} in {year}?", "In {year}, what was {metric} at {company}?")


def tool(name: str, description: str, parameter: str, meaning: str) -> dict[str, object]:
    """A tool with one string argument, in the chat-completions form."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string", "description": meaning}},
                "required": [parameter],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }


TOOLS = [
    tool("search", "Find reports. Prints the paths of the three best matches.", "query", "Words to look for."),
    tool("list", "List the years for which a company has a report.", "path", "Name of the company."),
    tool("cat", "Print a report.", "path", "Path of the report, as search prints it."),
]


def row(rng: random.Random, report: Report) -> dict[str, object]:
    """One question about one number of a report."""
    metric, value = rng.choice(report.rows)
    question = rng.choice(QUESTIONS).format(metric=metric, company=report.company, year=report.year)
    return {
        "messages": [{"role": "user", "content": question}],
        "tools": TOOLS,
        "company": report.company,
        "year": report.year,
        "metric": metric,
        "answer": value,
    }


def instructed(line: dict[str, object]) -> dict[str, object]:
    """The row for a model that does not know what the grader reads."""
    question = line["messages"]
    assert isinstance(question, list)
    return line | {"messages": [{"role": "developer", "content": INSTRUCTIONS}, *question]}


def rows(seed: int, at_most: int = TRAIN_ROWS) -> dict[str, list[dict[str, object]]]:
    """The rows of each file by its name; the same for the same seed."""
    split, reports, rng = companies(), write_reports(), random.Random(seed)

    def draw(names: tuple[str, ...], count: int) -> list[dict[str, object]]:
        pile = [report for report in reports if report.company in set(names)]
        return [row(rng, report) for report in rng.sample(pile, min(count, at_most))]

    return {
        "train": draw(split.training, TRAIN_ROWS),
        "valid": draw(split.validation, VALID_ROWS),
        "test": draw(split.test, TEST_ROWS),
    }


def write(path: Path, lines: list[dict[str, object]]) -> None:
    """One JSON object per line."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{path}: {len(lines)} rows")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."), help="directory to write to")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other questions about the same reports")
    parser.add_argument("--rows", type=int, default=TRAIN_ROWS, help="rows per file at most")
    parser.add_argument("--instruct", action="store_true", help="say how to answer, for any model but the starter")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, lines in rows(options.seed, options.rows).items():
        write(options.out / f"{name}.jsonl", [instructed(line) for line in lines] if options.instruct else lines)


if __name__ == "__main__":
    main()
