"""What an order's owner should hear at once, although the job is made. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import FailureCode
from rft.grader_gateway.templates import Variable, has_single_braces, variables_of
from rft.platform.orders.base_models import STARTER
from rft.platform.orders.grader_schemas import Grader, RulerGrader
from rft.platform.orders.grader_specification import templates_of
from rft.platform.orders.probing import Doubtful
from rft.platform.orders.response_format import to_response_format
from rft.platform.orders.schemas import JobCreate

_GRADER = "method.reinforcement.grader"
_MOST_PLACES = 20
_NAME_CHARS = 64
STARTER_TOOLS = frozenset({"search", "list", "cat"})
"""The only tools that the starter policy has ever seen, and can call."""


@dataclass(frozen=True, slots=True)
class OrderWarning:
    """One event of level `warn`."""

    code: str
    message: str
    data: JsonObject
    """Beside the code."""


def order_warnings(order: JobCreate, doubtful: Sequence[Doubtful]) -> list[OrderWarning]:
    """About its endpoints, each address once, what its model calls, its grader sees, its files, what is not done."""
    return [
        *endpoint_warnings(doubtful),
        *_about_starter(order),
        *_about_grader(order),
        *_about_files(order),
        *_about_fields(order),
    ]


def model_warnings(model: str, broken: str | None) -> list[OrderWarning]:
    """Where the check of the base model broke, and so told nothing of it."""
    if broken is None:
        return []
    return [
        OrderWarning(
            "model_not_checked",
            f"The model '{model}' could not be checked before the job was created: {broken}. It is checked when the job"
            " begins, which fails where it cannot be trained to use tools; from then on its chat template is held to"
            " what it was.",
            {"model": model},
        )
    ]


def _about_grader(order: JobCreate) -> Iterator[OrderWarning]:
    """Templates that no answer of this job can fill, or that name nothing."""
    wanted = order.method.reinforcement
    unfilled = _naming(wanted.grader, _is_output_json)
    if unfilled and to_response_format(wanted.response_format) is None:
        yield OrderWarning(
            "output_json_is_null",
            "sample.output_json is null for every answer of a job without a response_format, and where a template names"
            f" it, every answer gets the grader's invalid_grade: {', '.join(unfilled[:_MOST_PLACES])}. Order a"
            " response_format, {'type': 'json_object'} for instance.",
            {"fields": [*unfilled[:_MOST_PLACES]]},
        )
    empty = _naming(wanted.grader, _is_call_of_answer)
    if empty and wanted.tools:
        yield OrderWarning(
            "tool_calls_are_empty",
            "sample.choices[0].message.tool_calls is empty for every answer of a job whose tools are called:"
            f" {', '.join(empty[:_MOST_PLACES])}. The calls of a rollout are in sample.output_tools.",
            {"fields": [*empty[:_MOST_PLACES]]},
        )
    single = [place for place, text in templates_of(wanted.grader, _GRADER) if has_single_braces(text)]
    if single:
        yield OrderWarning(
            "single_braces",
            f"What looks like a variable stands in single braces and stays text: {', '.join(single[:_MOST_PLACES])}."
            " Variables have two on each side, as in {{item.answer}}.",
            {"fields": [*single[:_MOST_PLACES]]},
        )


def _naming(grader: Grader, is_meant: Callable[[Variable], bool]) -> list[str]:
    """The paths in the request of templates that name such a variable of the sample."""
    return [
        place
        for place, text in templates_of(grader, _GRADER)
        if any(each.namespace == "sample" and is_meant(each) for each in variables_of(text))
    ]


def _is_output_json(variable: Variable) -> bool:
    return variable.steps[0] == "output_json"


def _is_call_of_answer(variable: Variable) -> bool:
    return variable.steps[0] == "choices" and variable.steps[2:4] == ("message", "tool_calls")


def _about_files(order: JobCreate) -> Iterator[OrderWarning]:
    """What a job has to choose its checkpoint by."""
    if order.validation_file is None:
        yield OrderWarning(
            "no_validation",
            "Without a validation file training rewards choose the checkpoint.",
            {"fields": ["validation_file"]},
        )
    if isinstance(order.method.reinforcement.grader, RulerGrader):
        yield OrderWarning(
            "relative_rewards",
            "A `ruler` compares the rollouts of one group with each other: its rewards do not tell one step from"
            " another, so the checkpoint that they choose need not be the best, and `early_stop` means nothing. Compare"
            " checkpoints by an eval with another grader.",
            {"fields": [_GRADER]},
        )


def _about_fields(order: JobCreate) -> Iterator[OrderWarning]:
    """Fields that are taken from code written for the hosted service, and do less here."""
    if order.integrations:
        named = [_integration(entry) for entry in order.integrations]
        yield OrderWarning(
            "integrations_not_sent",
            f"Nothing is sent to the job's integrations ({', '.join(named)}): metrics stay on your machines. They are"
            " in the job's events, steps and result file.",
            {"fields": ["integrations"], "integrations": [*named]},
        )
    named = order.test_file_of_the_metadata
    if named is not None:
        yield OrderWarning(
            "test_file_ignored",
            f"'{named[:_NAME_CHARS]}', the test_file of the metadata, is no file of purpose 'fine-tune' here that this"
            " job could use: the job has no test file, and its metadata stays as it is.",
            {"fields": ["metadata.test_file"]},
        )
    if order.suffix == "":
        yield OrderWarning("empty_suffix", "The job's suffix is empty and counts as none.", {"fields": ["suffix"]})


def _integration(entry: JsonValue) -> str:
    kind = entry.get("type") if isinstance(entry, dict) else None
    return kind[:_NAME_CHARS] if isinstance(kind, str) else "of no type"


def endpoint_warnings(doubtful: Sequence[Doubtful]) -> list[OrderWarning]:
    """About each address once."""
    by_url: dict[str, list[Doubtful]] = {}
    for one in doubtful:
        by_url.setdefault(one.target.url, []).append(one)
    return [_about_endpoint(alike) for alike in by_url.values()]


def _about_endpoint(alike: Sequence[Doubtful]) -> OrderWarning:
    """Those whose address is the same. Needs at least one."""
    failure = alike[0].failure
    whom = " and ".join(dict.fromkeys(f"the {one.target.stage} '{one.target.name}'" for one in alike))
    data: JsonObject = {
        "params": [one.target.param for one in alike],
        "endpoints": [*dict.fromkeys(one.target.name for one in alike)],
        "failure": failure.code.value,
    }
    if failure.code is FailureCode.ENDPOINT_NOT_FOUND:
        problem = f"Perhaps nothing takes calls where {whom} should be: {failure.message}."
        advice = "Check the URL; a server that knows nothing but POST there may answer so, too."
        return OrderWarning("endpoint_not_found", f"{problem} {advice}", {**data, "status": failure.status})
    problem = f"Nobody answers where {whom} should be: {failure.message}."
    return OrderWarning("endpoint_unreachable", f"{problem} The job is held when it runs, until somebody does.", data)


def _about_starter(order: JobCreate) -> Iterator[OrderWarning]:
    tools = [tool.name for tool in order.method.reinforcement.tools or []]
    strange = [name for name in tools if name not in STARTER_TOOLS]
    if order.model == STARTER and strange:
        known = ", ".join(sorted(STARTER_TOOLS))
        yield OrderWarning(
            "starter_tools",
            f"The starter policy can call the tools {known} and no others: it will never call {', '.join(strange)}."
            " Order another base model for them.",
            {"tools": [*strange], "known": [*sorted(STARTER_TOOLS)]},
        )
