"""Write the questions: `train.jsonl` (400 rows) and `valid.jsonl` (200 rows) about companies that share no name.

    python examples/finqa_mini/generate.py --out var/finqa_mini --seed 1

`messages` and `tools` are read by the platform; all other keys are ours and come back to tools and grader as `item`.
"""

import argparse
import json
import random
from pathlib import Path

from corpus import Report, company_names, write_reports

TRAIN_ROWS, VALID_ROWS = 400, 200
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


def rows(seed: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Training and validation rows; the same for the same seed."""
    training, validation = company_names()
    reports = write_reports()
    rng = random.Random(seed)

    def draw(companies: list[str], count: int) -> list[dict[str, object]]:
        pile = [report for report in reports if report.company in set(companies)]
        return [row(rng, report) for report in rng.sample(pile, count)]

    return draw(training, TRAIN_ROWS), draw(validation, VALID_ROWS)


def write(path: Path, lines: list[dict[str, object]]) -> None:
    """One JSON object per line."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{path}: {len(lines)} rows")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."), help="directory to write to")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other questions about the same reports")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    train, valid = rows(options.seed)
    write(options.out / "train.jsonl", train)
    write(options.out / "valid.jsonl", valid)


if __name__ == "__main__":
    main()
