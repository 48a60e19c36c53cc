"""`quick_starter.py DIRECTORY`: a starter trained just long enough to call tools, and asked for nothing more."""

import sys
from pathlib import Path

from rft.starter.builder import Plan, build_starter
from rft.starter.gate import Gate
from rft.starter.warmup import Schedule

PLAN = Plan(
    schedule=Schedule(copy_steps=10, skill_steps=40, habit_steps=10),
    gate=Gate(accuracy=0, reward_low=0, reward_high=1),
    traces=8,
    rollouts=8,
)

if __name__ == "__main__":
    build_starter(Path(sys.argv[1]), seed=1, plan=PLAN)
