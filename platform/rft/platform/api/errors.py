"""The error envelope of the wire contract, and the exceptions that become it."""

from typing import ClassVar

from pydantic import BaseModel

from rft.core.errors import RftError


class ErrorBody(BaseModel):
    """What went wrong; all four keys are always there."""

    message: str
    type: str
    param: str | None
    """The field to blame, e.g. `method.reinforcement.tools[0].server_url`."""
    code: str | None


class ErrorEnvelope(BaseModel):
    """The body of every reply that is not a success."""

    error: ErrorBody


class ApiError(RftError):
    """A reply that is not a success; carries everything its envelope needs."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code

    @property
    def envelope(self) -> ErrorEnvelope:
        """The reply's body."""
        return ErrorEnvelope(
            error=ErrorBody(message=self.message, type=self.type, param=self.param, code=self.code),
        )


class BadRequest(ApiError):
    """The customer's request cannot be fulfilled as it is."""

    status = 400
    type = "invalid_request_error"


class Unauthorized(ApiError):
    """No API key, or one that is not ours."""

    status = 401
    type = "invalid_request_error"


class Forbidden(ApiError):
    """Known, but not allowed to."""

    status = 403
    type = "invalid_request_error"


class NotFound(ApiError):
    """No such object."""

    status = 404
    type = "invalid_request_error"


class ClientGone(ApiError):
    """Nobody reads this reply."""

    status = 499
    type = "invalid_request_error"


class TooLarge(ApiError):
    """More bytes than allowed."""

    status = 413
    type = "invalid_request_error"


class Unavailable(ApiError):
    """Something of ours is down or busy; worth another try."""

    status = 503
    type = "server_error"

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, param=param, code=code)
        self.retry_after_s = retry_after_s
        """When it is worth one; None: soon."""
