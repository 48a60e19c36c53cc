"""Where an order's tools and graders are."""

from rft.core.base import JsonObject
from rft.core.failure import Stage
from rft.platform.orders.addresses import addresses_in, addresses_of
from rft.platform.orders.schemas import Reinforcement

URL = "http://127.0.0.1:9/tool"
EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{sample.output_text}}",
    "reference": "4",
}


def test_addresses_are_those_of_tools_and_of_graders_within_graders() -> None:
    endpoint = {"type": "endpoint", "name": "credit", "url": "http://127.0.0.1:9/grade"}
    multi = {"type": "multi", "name": "all", "graders": {"a": endpoint, "b": EXACT}, "calculate_output": "a + b"}
    tools = [{"name": "search", "server_url": URL}]
    order = Reinforcement.model_validate({"grader": multi, "tools": tools})
    assert addresses_of(order) == {
        (Stage.TOOL, "search"): URL,
        (Stage.GRADER, "a"): endpoint["url"],
        (Stage.GRADER, "credit"): endpoint["url"],
    }
    assert addresses_of(Reinforcement.model_validate({"grader": EXACT})) == {}
    method: JsonObject = {"type": "reinforcement", "reinforcement": order.model_dump(mode="json", exclude_unset=True)}
    assert addresses_in(method) == addresses_of(order)


def test_an_order_that_is_none_today_has_no_addresses() -> None:
    assert addresses_in({"type": "reinforcement", "reinforcement": {"grader": {"type": "gone"}}}) == {}
