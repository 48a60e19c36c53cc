"""The figures of `make bench-scale` as the tables of docs/scale.md. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMES = {
    "tool_gateway": "tool gateway",
    "grader_gateway": "grader gateway",
    "api": "API (the inbox)",
    "database": "database",
    "trainer": "trainer's event loop",
    "ingest": "platform's worker (ingestion)",
}
_SIZES = {"tool_gateway": "tool_gateways", "grader_gateway": "grader_gateways", "api": "apis"}


def tables(cases: Mapping[str, Any]) -> str:
    """All of them, a blank line between two."""
    return "\n\n".join((_costs(cases), _per_process(cases), _hosts(cases), _enough(cases), _growth(cases)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _costs(cases: Mapping[str, Any]) -> str:
    costs, inbox = cases["costs"], cases["inbox_costs"]

    def both(name: str) -> str:
        return f"{inbox[name]['api_ms']:.2f} + {inbox[name]['postgres_ms']:.2f} ms"

    return _table(
        ("what", "costs"),
        (
            ("a tool call in the tool gateway's process", f"{costs['tool_call_ms']:.2f} ms"),
            ("a grade in the grader gateway's", f"{costs['grade_ms']:.2f} ms"),
            ("a rollout in its worker's process: four turns, three calls, a grade", f"{costs['worker_ms']:.2f} ms"),
            ("a rollout in the trainer's event loop", f"{costs['trainer_ms']:.2f} ms"),
            ("the inbox, API + database: a delivery of one rollout", both("deliver")),
            ("each further rollout in the same delivery", both("delivered")),
            ("a rollout that the trainer reads", both("read")),
            ("a shard that is given out", both("give_out")),
            ("a look for a shard", both("take")),
            ("a worker's sign of life", both("beat")),
            ("storing a rollout's events, calls and tokens", f"{costs['ingest_ms']:.2f} ms"),
            ("a notification, one for each batch of events", f"{costs['notify_ms']:.2f} ms"),
            ("the queue's process, for a rollout", f"{costs['broker_ms']:.2f} ms"),
            ("a rollout on the wire", f"{costs['wire_bytes'] / 1e3:.1f} KB"),
            ("a rollout in the event log, without its tokens", f"{costs['event_bytes'] / 1e3:.1f} KB"),
        ),
    )


def _per_process(cases: Mapping[str, Any]) -> str:
    rates = cases["per_process"]["rollouts_per_s"]
    of_a_host = cases["hosts_4"]["rollouts_per_s"] / cases["hosts_4"]["size"]["hosts"]
    return _table(
        ("one process of", "does rollouts a second", "which are those of so many hosts"),
        (
            (NAMES[name] + ", two cores" * (name == "database"), f"{rate:.0f}", f"{rate / of_a_host:.0f}")
            for name, rate in sorted(rates.items(), key=lambda one: one[1])
        ),
    )


def _hosts(cases: Mapping[str, Any]) -> str:
    runs = [case for name, case in cases.items() if name.startswith("hosts_") and not name.endswith("enough")]
    runs.sort(key=lambda case: case["size"]["hosts"])
    return _table(
        ("hosts", "rollouts in flight", "rollouts a second", "a rollout takes", *NAMES.values()),
        (_run(case, str(case["size"]["hosts"])) for case in runs),
    )


def _enough(cases: Mapping[str, Any]) -> str:
    [case] = [case for name, case in cases.items() if name.endswith("_enough")]
    size = case["size"]
    many = ", ".join(f"{size[key]} {NAMES[name]}" for name, key in _SIZES.items())
    return _table(
        ("processes", "rollouts in flight", "rollouts a second", "a rollout takes", *NAMES.values()),
        [_run(case, f"{many}, {size['database_cores']} cores of the database")],
    )


def _growth(cases: Mapping[str, Any]) -> str:
    limiter, inbox, dispatcher = cases["limiter"], cases["inbox_backlog"], cases["dispatcher"]
    few, many = dispatcher["cpu_ms_per_rollout"]
    return _table(
        ("what", "among few", "among 20,000", "times"),
        (
            (
                "a call through the limiter, 64 jobs waiting there",
                f"{limiter['us_per_call_1000']:.0f} µs",
                f"{limiter['us_per_call_20000']:.0f} µs",
                f"{limiter['ratio']:.1f}",
            ),
            (
                "a rollout that the trainer reads, of all that wait in the inbox",
                f"{inbox['ms_per_rollout_1000']:.2f} ms",
                f"{inbox['ms_per_rollout_20000']:.2f} ms",
                f"{inbox['ratio']:.1f}",
            ),
            (
                "a rollout through dispatcher and session, in flight",
                f"{few:.1f} ms",
                f"{many:.1f} ms",
                f"{dispatcher['ratio']:.1f}",
            ),
        ),
    )


def _run(case: Mapping[str, Any], first: str) -> Sequence[str]:
    busy = (f"{case['utilisation'][name]:.0%}" for name in NAMES)
    return (first, f"{case['in_flight']:,}", f"{case['rollouts_per_s']:.0f}", f"{case['rollout_s']:.0f} s", *busy)
