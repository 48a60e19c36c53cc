"""What the command line reads of registered tools and graders, and of what came of trying them."""

from pydantic import Field

from rft.platform.cli.views import View


class Health(View):
    """How an endpoint fares."""

    status: str
    last_seen: int | None = None
    error_share: float | None = None
    client_error_share: float | None = None
    attempts: int = 0
    last_failure: str | None = None


class RegisteredTool(View):
    """A tool of the registry."""

    id: str
    created_at: int
    name: str
    server_url: str
    headers: dict[str, str] | None = None
    description: str | None = None
    timeout_s: float | None = None
    max_concurrency: int | None = None
    rate_limit: float | None = None
    retry: str | None = None
    callback_url: str | None = None
    health: Health


class RegisteredGrader(View):
    """A grader of the registry."""

    id: str
    created_at: int
    name: str
    type: str
    health: Health


class Failed(View):
    """Why there is no result."""

    code: str
    message: str


class Tried(View):
    """One HTTP attempt."""

    attempt: int
    status: int | None = None
    code: str | None = None
    latency_ms: float


class TriedTool(View):
    """What came of a test call."""

    is_ok: bool
    output: str | None = None
    error_code: str | None = None
    failure: Failed | None = None
    latency_s: float
    attempts: tuple[Tried, ...] = ()


class TriedGrader(View):
    """What came of a test grade."""

    is_ok: bool
    reward: float | None = None
    scores: dict[str, float] = Field(default_factory=dict)
    failure: Failed | None = None
    error_details: str | None = None
    latency_s: float
    attempts: tuple[Tried, ...] = ()


class RunTool(View):
    """What a tool answered."""

    output: str
    latency_s: float
    attempts: int


class RunMetadata(View):
    """How a grade came about."""

    name: str
    type: str
    execution_time: float
    scores: dict[str, float] = Field(default_factory=dict)
    token_usage: int | None = None


class RunGrader(View):
    """The grade of one answer."""

    reward: float
    sub_rewards: dict[str, float | None] = Field(default_factory=dict)
    """None for a part that failed."""
    metadata: RunMetadata
    failure: Failed | None = None
    error_details: str | None = None


class ValidGrader(View):
    """A grader that a job would take."""

    grader: "GraderName"


class GraderName(View):
    """How it is called."""

    name: str | None = None
    type: str
