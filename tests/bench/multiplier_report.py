"""The figures of `make bench-multiplier` as a table and as a picture. Pure: text from figures."""

from collections.abc import Callable, Sequence
from typing import Any

COLORS = ("#56b4e9", "#0072b2", "#009e73", "#d55e00", "#a3569b", "#8a6d3b", "#e69f00", "#4b5bb5")
WIDTH, HEIGHT = 860, 330
PANEL_WIDTH, TOP, BOTTOM = 340, 46, 270
LEFTS = (52, 484)
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

Position = Callable[[float, float], str]


def markdown_table(cases: Sequence[dict[str, Any]]) -> str:
    """A line per multiplier: reward at its first, middle and last evaluation, and in the end."""
    lines = [
        "| `compute_multiplier` | rollouts per row | training rollouts | reward half-way | reward at the last step |"
        " best checkpoint, fresh seeds | by seed |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        points = case["points"]
        half, last = points[len(points) // 2], points[-1]
        seeds = ", ".join(f"{reward:.3f}" for reward in case["final_by_seed"].values())
        lines.append(
            f"| {case['compute_multiplier']:g} | {case['rollouts_per_row']} | {last['train_rollouts']:,}"
            f" | {_told(half['reward'])} (step {half['step']}) | {_told(last['reward'])} (step {last['step']})"
            f" | {_told(case['final'])} | {seeds} |"
        )
    return "\n".join(lines) + "\n"


def curve_picture(cases: Sequence[dict[str, Any]]) -> str:
    """Reward by step on the left, by training rollouts on the right; bands are 95 % intervals. An SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="12" fill="#3a4149">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for left, (key, title) in zip(LEFTS, (("step", "step"), ("train_rollouts", "training rollouts")), strict=True):
        parts += _panel(cases, key, f"Validation reward by {title}", left)
    for number, case in enumerate(cases):
        x = LEFTS[0] + number * 90
        parts.append(f'<rect x="{x}" y="{HEIGHT - 18}" width="14" height="4" fill="{COLORS[number]}"/>')
        parts.append(f'<text x="{x + 20}" y="{HEIGHT - 11}">x {case["compute_multiplier"]:g}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(cases: Sequence[dict[str, Any]], key: str, title: str, left: int) -> list[str]:
    most = max(point[key] for case in cases for point in case["points"]) or 1

    def at(x: float, reward: float) -> str:
        return f"{left + x / most * PANEL_WIDTH:.1f},{BOTTOM - reward * (BOTTOM - TOP):.1f}"

    parts = [f'<text x="{left}" y="24" font-weight="600">{title}</text>']
    for tick in TICKS:
        y = BOTTOM - tick * (BOTTOM - TOP)
        parts.append(f'<line x1="{left}" y1="{y}" x2="{left + PANEL_WIDTH}" y2="{y}" stroke="#e1e4e8"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    for share in (0.0, 0.5, 1.0):
        x = left + share * PANEL_WIDTH
        parts.append(f'<text x="{x}" y="{BOTTOM + 18}" text-anchor="middle">{share * most:,.0f}</text>')
    for color, case in zip(COLORS, cases, strict=False):
        parts += _curve(case["points"], key, color, at)
    return parts


def _curve(points: Sequence[dict[str, Any]], key: str, color: str, at: Position) -> list[str]:
    above = [at(point[key], point["reward"]["high"]) for point in points]
    below = [at(point[key], point["reward"]["low"]) for point in reversed(points)]
    line = [at(point[key], point["reward"]["mean"]) for point in points]
    return [
        f'<polygon points="{" ".join([*above, *below])}" fill="{color}" fill-opacity="0.13"/>',
        f'<polyline points="{" ".join(line)}" fill="none" stroke="{color}" stroke-width="2"/>',
    ]


def _told(reward: dict[str, float]) -> str:
    return f"{reward['mean']:.3f} [{reward['low']:.2f}, {reward['high']:.2f}]"
