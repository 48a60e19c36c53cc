"""Writes what the dashboard uses of the API's OpenAPI document to standard output; no database is touched.

Only the paths it reads, only shapes: prose and other people's endpoints change without a new build.
"""

import json
import sys
from typing import Any

from rft.platform.app import create_app
from rft.platform.settings import Settings

_JOBS = "/v1/fine_tuning/jobs"
_JOB = f"{_JOBS}/{{fine_tuning_job_id}}"
_ROLLOUT = f"{_JOB}/rollouts/{{trace_id}}"
_EVAL = "/v1/evals/{eval_id}"
_RUN = f"{_EVAL}/runs/{{run_id}}"

_USED = (
    # The session
    ("get", "/dashboard/session"),
    ("post", "/dashboard/session"),
    ("delete", "/dashboard/session"),
    # Every page
    ("get", "/v1/dashboard/condition"),
    # Jobs
    ("get", _JOBS),
    ("get", "/v1/dashboard/curves"),
    # A job
    ("get", _JOB),
    ("get", f"{_JOB}/events"),
    ("get", f"{_JOB}/checkpoints"),
    ("get", f"{_JOB}/curves"),
    ("get", f"{_JOB}/diagnostics"),
    ("get", f"{_JOB}/policy_change"),
    ("get", f"{_JOB}/call_change"),
    ("get", f"{_JOB}/stream"),
    ("get", f"{_JOB}/endpoints"),
    ("delete", _JOB),
    ("post", f"{_JOB}/cancel"),
    ("post", f"{_JOB}/pause"),
    ("post", f"{_JOB}/resume"),
    # Files
    ("get", "/v1/files"),
    ("post", "/v1/files"),
    ("get", "/v1/files/{file_id}"),
    ("delete", "/v1/files/{file_id}"),
    ("get", "/v1/files/{file_id}/content"),
    ("get", "/v1/files/{file_id}/problems"),
    # Evals
    ("get", "/v1/evals"),
    ("get", _EVAL),
    ("delete", _EVAL),
    ("get", f"{_EVAL}/runs"),
    ("post", f"{_EVAL}/runs"),
    ("get", _RUN),
    ("delete", _RUN),
    ("post", f"{_RUN}/cancel"),
    ("post", f"{_RUN}/retry"),
    ("get", f"{_RUN}/compare"),
    ("get", f"{_RUN}/compare/rows"),
    ("get", f"{_RUN}/variance"),
    ("get", f"{_RUN}/output_items"),
    # Models
    ("get", "/v1/models"),
    ("get", "/v1/models/{model}"),
    ("delete", "/v1/models/{model}"),
    ("post", f"{_JOB}/playground"),
    ("get", "/v1/dashboard/files/{file_id}/uses"),
    # Settings
    ("get", "/v1/dashboard/keys"),
    ("post", "/v1/dashboard/keys"),
    ("delete", "/v1/dashboard/keys/{key_id}"),
    ("get", "/v1/providers"),
    ("post", "/v1/providers"),
    ("delete", "/v1/providers/{provider_id}"),
    ("get", "/v1/dashboard/judges"),
    ("get", "/v1/signing_secrets"),
    ("post", "/v1/signing_secrets/rotate"),
    ("delete", "/v1/signing_secrets/{signing_secret_id}"),
    # Registered tools and graders
    ("get", "/v1/tools"),
    ("post", "/v1/tools/{tool_id}/test"),
    ("get", "/v1/graders"),
    # A new job
    ("post", _JOBS),
    ("post", "/v1/fine_tuning/alpha/jobs/estimate"),
    ("post", "/v1/fine_tuning/alpha/tool/run"),
    ("post", "/v1/fine_tuning/alpha/graders/run"),
    # Endpoints
    ("get", "/v1/dashboard/endpoints"),
    ("get", "/v1/dashboard/endpoints/failed_calls"),
    ("get", "/v1/rehearsals"),
    ("post", "/v1/rehearsals/{rehearsal_id}/cancel"),
    # What a job's rows have to teach
    ("get", f"{_JOB}/variance"),
    # Rollouts
    ("get", f"{_JOB}/rollouts"),
    ("get", _ROLLOUT),
    ("get", f"{_ROLLOUT}/attempts"),
    ("get", f"{_ROLLOUT}/neighbours"),
    ("get", f"{_ROLLOUT}/grading"),
    ("get", f"{_ROLLOUT}/tokens"),
)
"""What the dashboard asks for, page by page."""
_REFERENCE = "#/components/schemas/"


def document() -> str:
    """The same bytes for the same API."""
    app = create_app(Settings.model_validate({"DATABASE_URL": "postgresql://nowhere/none"}))
    full = app.openapi()
    paths: dict[str, dict[str, Any]] = {}
    for verb, path in _USED:
        paths.setdefault(path, {})[verb] = _shape(_answered(full["paths"][path][verb]))
    names = _reachable(paths, full["components"]["schemas"])
    schemas = {name: _shape(full["components"]["schemas"][name]) for name in names}
    kept = {"openapi": full["openapi"], "info": {"title": "Agent RFT", "version": "1"}, "paths": paths}
    return json.dumps({**kept, "components": {"schemas": schemas}}, indent=1, sort_keys=True) + "\n"


def _answered(operation: dict[str, Any]) -> dict[str, Any]:
    """Without errors, which are the same for all, and without headers, which it does not read."""
    good = {status: reply for status, reply in operation["responses"].items() if status.startswith("2")}
    bodies = {status: {k: v for k, v in reply.items() if k != "headers"} for status, reply in good.items()}
    return {**operation, "responses": bodies}


def _shape(node: Any) -> Any:
    """Without prose, and without the key that every path needs."""
    if isinstance(node, dict):
        return {
            key: _shape(value)
            for key, value in node.items()
            if key != "security" and not (key in ("description", "summary", "title") and isinstance(value, str))
        }
    return [_shape(value) for value in node] if isinstance(node, list) else node


def _reachable(node: Any, schemas: dict[str, Any], found: frozenset[str] = frozenset()) -> frozenset[str]:
    """Names of all schemas that `node` leads to."""
    if isinstance(node, str) and node.startswith(_REFERENCE):
        name = node.removeprefix(_REFERENCE)
        return found if name in found else _reachable(schemas[name], schemas, found | {name})
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        found = _reachable(child, schemas, found)
    return found


if __name__ == "__main__":
    sys.stdout.write(document())
