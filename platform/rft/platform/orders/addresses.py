"""The addresses in an order, by stage and name. Pure."""

from collections.abc import Iterable

from pydantic import ValidationError

from rft.core.base import JsonObject
from rft.core.failure import Stage
from rft.platform.orders.grader_schemas import EndpointGrader, Grader, MultiGrader
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
