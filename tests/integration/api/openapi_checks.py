"""What every reply to a made-up request is held to, and which refusals of well-formed requests are right."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from schemathesis.checks import CheckContext, not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    ensure_resource_availability,
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
    use_after_free,
)

from tests.integration.api.openapi_acquaintance import Case

_SEARCHES = r"GET .*/rollouts(/[^/]+/neighbours)?"
_LISTS = r"GET .*"
_ORDERS = r"POST /v1/(fine_tuning/jobs|fine_tuning/alpha/jobs/estimate|rehearsals)"
_GRADED = rf"({_ORDERS}|POST /v1/evals|POST /v1/graders.*|POST /v1/fine_tuning/(alpha/graders/.*|jobs/.*/regrade))"
_WITH_TOOLS = rf"({_ORDERS}|POST /v1/tools.*|POST /v1/fine_tuning/alpha/tool/run)"
_CHANGES = r"POST /v1/fine_tuning/jobs/[^/]+/endpoints"
_PROVIDERS = r"POST /v1/providers.*"
_EVAL_RUNS = r"POST /v1/evals/[^/]+/runs"
_CHAT = r"POST /v1/chat/completions"
_ANSWERED = r"POST /v1/(chat/completions|responses|fine_tuning/jobs/.*/playground)"
_CALLED = rf"({_GRADED}|{_WITH_TOOLS}|{_CHANGES})"
RIGHT_REFUSALS: Mapping[tuple[str, str], str] = {
    (_LISTS, "invalid_cursor"): "whether `after` names an object is no matter of form",
    (_SEARCHES, "step_required"): "text within words is looked for in one step",
    (_SEARCHES, "no_terms"): "a search has at least one letter or digit",
    (r"GET .*/(curves|endpoints)", "invalid_window"): "the window's end is compared with its beginning",
    (r"POST .*/(cancel|pause|resume)|POST .*/regrade", "invalid_state"): "not in the state that this job is in",
    (_CHANGES, "invalid_state"): "not in the state that this job is in",
    (_CHANGES, "tool_not_found"): "whether the job has such a tool is no matter of form",
    (_CHANGES, "grader_not_found"): "whether the job's grader has such a part is no matter of form",
    (_CHANGES, "grader_not_an_endpoint"): "whether the job's grader has an address is no matter of form",
    (_CHANGES, "nothing_to_change"): "what is null is as good as not there",
    (r"(POST|DELETE) /v1/signing_secrets/.*", "invalid_state"): "two secrets at most, and one at least",
    (r"POST /v1/files", "file"): "what the bytes are depends on the purpose",
    (r"POST /v1/uploads", "filename"): "what a name may be depends on the purpose",
    (r"POST /v1/uploads/.*/parts", "data"): "the bytes: none are no part, and there are not to be too many",
    (r"POST /v1/uploads/.*/complete", "part_ids"): "whether there are such parts is no matter of form",
    (r"POST /v1/uploads/.*/complete", "part_not_found"): "whether there is such a part is no matter of form",
    (r"POST /v1/uploads/.*", "invalid_state"): "not in the state that this upload is in",
    (r"GET /v1/files/.*/problems", "invalid_file_purpose"): "only some purposes are read",
    (r"DELETE /v1/files/.*", "file_in_use"): "jobs read it",
    (r"DELETE /v1/models/.*", "model_in_use"): "jobs train it on",
    (_ORDERS, "model"): "whether a model is served here is no matter of form",
    (_ORDERS, "training_file"): "whether a file exists and is good for training is no matter of form",
    (_ORDERS, "validation_file"): "whether a file exists and is good for training is no matter of form",
    (_ORDERS, "test_file"): "whether a file exists and is good for training is no matter of form",
    (_ORDERS, "baselines"): "whether there is such a model is no matter of form",
    (_ORDERS, "idempotency_key_reused"): "another order had it",
    (_ORDERS, "tools"): "no two tools have one name",
    (_ORDERS, "tool_not_described"): "whether the file's rows describe a tool is no matter of form",
    (_ORDERS, "duplicate_tool"): "no two tools have one name",
    (_ORDERS, "tool_not_found"): "whether it is registered is no matter of form",
    (_GRADED, "grader_not_found"): "whether it is registered is no matter of form",
    (_ORDERS, "schema"): "a JSON Schema within JSON",
    (r".*", "parameters"): "a JSON Schema within JSON",
    (_GRADED, "calculate_output"): "a language of its own",
    (_GRADED, "source"): "a language of its own",
    (_GRADED, "input"): "templates: a language of their own",
    (_GRADED, "reference"): "templates: a language of their own",
    (_GRADED, "content"): "templates: a language of their own",
    (_GRADED, "range"): "its end is compared with its beginning",
    (_GRADED, "labels"): "no two are the same",
    (_GRADED, "passing_labels"): "each is one of `labels`",
    (_GRADED, "graders"): "names of parts are unlike one another in a list",
    (_GRADED, "judge_not_configured"): "whether there is a judge is no matter of form",
    (r"DELETE /v1/dashboard/keys/.*", "last_key"): "somebody has to have one",
    (r"POST .*/regrade", "steps"): "each step once, and only steps that the job has done",
    (r"POST .*/regrade", "too_many_regrades"): "some at a time",
    (_GRADED, "name"): "no two parts have one name",
    (r"POST /v1/evals", "pass_threshold"): "the contract wants one of a similarity",
    (r"POST /v1/evals", "item_schema"): "a JSON Schema within JSON",
    (_EVAL_RUNS, "file_not_found"): "whether a file exists is no matter of form",
    (_EVAL_RUNS, "item_schema_mismatch"): "items fit the eval's own schema",
    (_EVAL_RUNS, "content"): "templates: a language of their own",
    (_EVAL_RUNS, "item_reference"): "a name within an item: a language of its own",
    (_EVAL_RUNS, "samples_per_row"): "depends on whether anything is sampled",
    (_EVAL_RUNS, "missing_required_parameter"): "a model and its messages come together",
    (_EVAL_RUNS, "model"): "whether a model is there is no matter of form",
    (_EVAL_RUNS, "tools"): "functions, in either of their shapes",
    (_EVAL_RUNS, "schema"): "a JSON Schema within JSON",
    (rf"{_EVAL_RUNS}/.*", "invalid_state"): "not in the state that this run is in",
    (r"GET /v1/evals/.*/compare(/rows)?", "run_not_found"): "whether the eval has such a run is no matter of form",
    (r"GET /v1/evals/.*", "criterion_not_found"): "whether the eval has such a criterion is no matter of form",
    (_CALLED, "url"): "an address, and the same one under both of its names",
    (_CALLED, "server_url"): "an address",
    (_CALLED, "callback_url"): "an address",
    (_CALLED, "headers"): "HTTP's rules for names and values",
    (r"POST /v1/fine_tuning/alpha/tool/run", "arguments"): "JSON within JSON",
    (r"POST /v1/fine_tuning/alpha/tool/run", "http_404"): "the tool's own answer",
    (_PROVIDERS, "provider_exists"): "no two have one name",
    (_PROVIDERS, "base_url"): "an address, which may not be there",
    (_PROVIDERS, "headers"): "HTTP's rules for names and values",
    (_PROVIDERS, "api_key"): "HTTP's rules for values",
    (_ANSWERED, "model"): "whether a model is there is no matter of form",
    (_CHAT, "messages"): "each answers what was before it",
    **{(_CHAT, field): "depends on who speaks" for field in ("role", "content", "tool_calls", "tool_call_id")},
    (_CHAT, "tools"): "no two tools have one name",
    (_CHAT, "tool_choice"): "names tools of the request",
    (_CHAT, "stream_options"): "only with `stream`",
    **{(_CHAT, field): "a field of the original that no engine here can do" for field in ("logit_bias", "modalities")},
}
"""By operation, and by the refusal's code or the field it names: why no JSON Schema could have told."""


def accepts_what_is_well_formed(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """`positive_data_acceptance`, but for refusals that are right."""
    if response.status_code == 400:
        error = response.json()["error"]
        field = re.sub(r"\[\d+\]", "", error["param"] or "").rpartition(".")[2]
        told = (error["code"], field)
        if any(name in told and re.fullmatch(place, case.operation.label) for place, name in RIGHT_REFUSALS):
            return None
        if any(_is_beyond_schemas(part) for part in (*_parts(case.body), *_parts(dict(case.query)))):
            return None
    return positive_data_acceptance(ctx, response, case)


def refuses_what_is_not(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """`negative_data_rejection`, but for what is not malformed any more on the wire."""
    if case.operation.label == "GET /v1/fine_tuning/jobs" and any(name.startswith("metadata") for name in case.query):
        # Whatever is no text becomes one in `metadata[name]=...`.
        return None
    return negative_data_rejection(ctx, response, case)


_MODEL_NAMED_ADAPTER = "/v1/models/{model}/adapter"


def refuses_other_methods(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """`unsupported_method`, but for a path that is a model's, too, if one were called `.../adapter`."""
    return None if case.path == _MODEL_NAMED_ADAPTER else unsupported_method(ctx, response, case)


def allow_tells_the_truth(ctx: CheckContext, response: Response, case: Case) -> bool | None:
    """`allow_header_conformance`, but for paths that are an object's, too, if one were called so: `rotate` a secret's,
    `.../adapter` a model's."""
    is_another = case.path in ("/v1/signing_secrets/rotate", _MODEL_NAMED_ADAPTER)
    return None if is_another else allow_header_conformance(ctx, response, case)


CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    refuses_what_is_not,
    accepts_what_is_well_formed,
    missing_required_header,
    refuses_other_methods,
    allow_tells_the_truth,
]
"""For every request."""
ONCE_FOR_EACH_OPERATION: list[Any] = [ignored_auth]
"""For the first request of an operation that succeeds: it is sent twice more."""
SEQUENCE_CHECKS: list[Any] = [
    *(check for check in CHECKS if check is not accepts_what_is_well_formed),
    use_after_free,
    ensure_resource_availability,
]
"""What went before decides what is accepted in a sequence; every operation's own requests are held to it."""


def _is_beyond_schemas(part: Any) -> bool:
    """A NUL cannot be stored; and JSON Schema takes `3.0` for a whole number."""
    return "\x00" in part if isinstance(part, str) else isinstance(part, float) and part.is_integer()


def _parts(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            for name, inner in cast("dict[str, Any]", value).items():
                yield name
                yield from _parts(inner)
        case list():
            for inner in cast("list[Any]", value):
                yield from _parts(inner)
        case _:
            yield value
