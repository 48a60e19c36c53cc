"""A customer who keeps state by `trace_id` and knows nothing else of us: a box office with a bank account per rollout.

No callbacks, no clean-up, no look at `Idempotency-Key`: whatever was done under an id stays done. So a conversation
that begins anew under an old id finds its seat taken and its money spent, and even a perfect policy fails.
"""

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.testing.samplers_oracle import OracleCall, OraclePlan

START_BALANCE = 100
_PARAMETERS: dict[str, JsonObject] = {
    "look": {"type": "object", "properties": {}},
    "book": {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]},
    "pay": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
}
TOOLS = tuple(_PARAMETERS)
"""Names of its tools, all behind one URL."""


@dataclass(slots=True)
class World:
    """What one rollout has done."""

    bookings: list[str] = field(default_factory=list[str])
    balance: int = START_BALANCE


@dataclass(slots=True)
class BoxOffice:
    """Tools and grader over the state of every `trace_id` ever heard of. Usable from several threads."""

    worlds: dict[str, World] = field(default_factory=dict[str, World])
    calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def call(self, body: dict[str, Any]) -> str:
        """The output of one tool call, the POST's body given. What cannot be done is said, and nothing changes."""
        arguments = json.loads(body["arguments"])
        with self._lock:
            self.calls += 1
            world = self.worlds.setdefault(body["trace_id"], World())
            match body["name"]:
                case "look":
                    return f"{len(world.bookings)} booked, balance {world.balance}"
                case "book":
                    world.bookings.append(arguments["seat"])
                    return f"{arguments['seat']} is booked"
                case "pay" if arguments["amount"] <= world.balance:
                    world.balance -= arguments["amount"]
                    return f"paid, balance {world.balance}"
                case _:
                    return "Error: this cannot be done"

    def grade(self, body: dict[str, Any]) -> float:
        """1.0 where exactly the seat that was asked for is booked, once, and paid for, once; else 0.0."""
        item = body["item"]
        with self._lock:
            world = self.worlds.setdefault(body["trace_id"], World())
            is_right = world.bookings == [item["seat"]] and world.balance == START_BALANCE - item["price"]
        return 1.0 if is_right else 0.0


def order_of_seat(number: int) -> JsonObject:
    """A dataset row: one seat to be booked and paid."""
    price = 10 + number % 50
    asked = f"Book seat {number} and pay {price}."
    described: list[JsonValue] = [
        {"type": "function", "function": {"name": name, "parameters": parameters}}
        for name, parameters in _PARAMETERS.items()
    ]
    return {
        "messages": [{"role": "user", "content": asked}],
        "tools": described,
        "seat": str(number),
        "price": price,
    }


def perfect_plan(row: JsonObject) -> OraclePlan:
    """What a policy that makes no mistake does on such a row."""
    calls = (
        OracleCall(name="look", arguments={}),
        OracleCall(name="book", arguments={"seat": row["seat"]}),
        OracleCall(name="pay", arguments={"amount": row["price"]}),
    )
    return OraclePlan(calls=calls, answer="Done.")
