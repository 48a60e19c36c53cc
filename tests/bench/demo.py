"""The demo's promises, measured: three seeds and one run with broken endpoints -> var/bench/demo.json.

The reward that is judged is that of the test rows, which chose nothing, with fresh seeds. Takes about half an hour on
2 quiet cores. Each case is the demo's own report, held against its bars.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
OUT = ROOT / "var" / "bench"


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise about a report."""

    name: str
    value: float
    at_least: float = float("-inf")
    at_most: float = float("inf")

    def record(self) -> dict[str, Any]:
        """As written to disk."""
        passed = self.at_least <= self.value <= self.at_most
        limits = {"at_least": self.at_least, "at_most": self.at_most}
        return {"value": round(self.value, 4), "passed": passed} | {k: v for k, v in limits.items() if abs(v) < 1e9}


def bars(report: dict[str, Any]) -> list[Bar]:
    """What must hold."""
    untrained, trained = report["test"]["untrained"], report["test"]["trained"]
    if report["faults"]:
        return [
            Bar("test_reward", trained["T=1"]["reward"], at_least=0.80),
            Bar("excluded_rollouts", report["excluded_rollouts"], at_least=1),
        ]
    calls_before, calls_after = (told["T=1"]["tool_calls_per_rollout"] for told in (untrained, trained))
    return [
        Bar("untrained_test_reward", untrained["T=1"]["reward"], at_least=0.20, at_most=0.45),
        Bar("test_reward", trained["T=1"]["reward"], at_least=0.85),
        Bar("greedy_test_reward", trained["greedy"]["reward"], at_least=0.90),
        Bar("tool_calls_ratio", calls_after / calls_before, at_most=0.65),
        Bar("seconds_training", report["seconds_training"], at_most=240),
        Bar("seconds_evaluation", report["seconds_evaluation"], at_most=60),
        Bar("seconds_total", report["seconds_total"], at_most=480),
    ]


def run(seed: int, faults: float) -> dict[str, Any]:
    """One demo of its own home; its report."""
    out = OUT / f"demo-seed{seed}-faults{faults}"
    command = [sys.executable, ROOT / "examples" / "demo.py", "--seed", str(seed), "--faults", str(faults)]
    subprocess.run([*command, "--out", out], check=True)
    return json.loads((out / "report.json").read_text())


def main() -> None:
    """Run all cases, write what came of them, exit 1 when a bar is missed."""
    cases: dict[str, Any] = {}
    for name, seed, faults in (("seed_1", 1, 0.0), ("seed_2", 2, 0.0), ("seed_3", 3, 0.0), ("faults_0.1", 1, 0.1)):
        report = run(seed, faults)
        held = {bar.name: bar.record() for bar in bars(report)}
        cases[name] = report | {"bars": held, "passed": all(bar["passed"] for bar in held.values())}
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "demo.json").write_text(json.dumps({"cases": cases}, indent=2) + "\n")
    sys.exit(not all(case["passed"] for case in cases.values()))


if __name__ == "__main__":
    main()
