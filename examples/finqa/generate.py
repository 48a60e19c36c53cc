"""Writes train.jsonl and valid.jsonl for a job from FinQA questions; rows whose two answers disagree are left out.

python examples/finqa/generate.py --data examples/finqa/data --out var/finqa
"""

import argparse
import json
from pathlib import Path
from typing import Any

from corpus import read_jsonl

INSTRUCTIONS = (
    "Answer the question from the companies' annual reports. Find the page with search, read it with cat. "
    "End with one line: Answer: and a single number, or yes or no."
)


def function(name: str, description: str, parameters: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    function(
        "search",
        "The best matching report page; page 2 is the next best, and so on.",
        {"query": {"type": "string"}, "page": {"type": "integer", "minimum": 1}},
        ["query"],
    ),
    function("list", "What lies under a path: companies, years, pages.", {"path": {"type": "string"}}, ["path"]),
    function("cat", "The text of a page.", {"path": {"type": "string"}}, ["path"]),
]


def to_row(question: dict[str, Any]) -> dict[str, Any]:
    """One dataset row; everything beside messages and tools is for the grader."""
    company, year, _ = question["path"].split("/")
    return {
        "messages": [
            {"role": "developer", "content": INSTRUCTIONS},
            {"role": "user", "content": f"Company {company}, annual report {year}: {question['question']}"},
        ],
        "tools": TOOLS,
        "id": question["id"],
        "path": question["path"],
        "exe_ans": question["exe_ans"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for source, target in (("questions_train.jsonl", "train.jsonl"), ("questions_val.jsonl", "valid.jsonl")):
        rows = [to_row(q) for q in read_jsonl(args.data / source) if q["consistent"] is not False]
        (args.out / target).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{args.out / target}: {len(rows)} rows")


if __name__ == "__main__":
    main()
