"""The addresses in an order, by stage and name. Pure."""

from collections.abc import Iterable

from pydantic import ValidationError

from rft.core.base import JsonObject
from rft.core.failure import Stage
from rft.platform.orders.grader_schemas import EndpointGrader, Grader, MultiGrader
from rft.platform.orders.grader_specification import leaves
from rft.platform.orders.schemas import Method, Reinforcement


def addresses_of(order: Reinforcement) -> dict[tuple[Stage, str], str]:
    """The addresses in an order, by stage and name; graders within a multi grader too."""
    tools = {(Stage.TOOL, tool.name): tool.server_url for tool in order.tools or ()}
    return tools | {(Stage.GRADER, name): url for name, url in _graders(order.grader)}


def addresses_in(method: JsonObject) -> dict[tuple[Stage, str], str]:
    """The same of what a job keeps; none of an order of an earlier release that is not one today."""
    try:
        return addresses_of(Method.model_validate(method).reinforcement)
    except ValidationError:
        return {}


def caps_in(method: JsonObject) -> list[tuple[str, int | None, float | None]]:
    """The address of each tool and endpoint grader of what a job keeps, and what may go there: calls at once, and a
    second."""
    try:
        order = Method.model_validate(method).reinforcement
    except ValidationError:
        return []
    graders = [leaf for _, _, leaf in leaves(order.grader, "") if isinstance(leaf, EndpointGrader)]
    return [
        *((tool.server_url, tool.max_concurrency, tool.rate_limit) for tool in order.tools or ()),
        *((grader.url, grader.max_concurrency, grader.rate_limit) for grader in graders),
    ]


def _graders(grader: Grader) -> Iterable[tuple[str, str]]:
    match grader:
        case EndpointGrader():
            yield grader.name or grader.type, grader.url
        case MultiGrader():
            for name, part in grader.graders.items():
                if isinstance(part, EndpointGrader):
                    yield name, part.url
                    yield part.name or name, part.url
        case _:
            return
