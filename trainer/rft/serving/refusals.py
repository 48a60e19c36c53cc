"""Why a request is not answered."""

from rft.core.errors import RftError
from rft.serving_wire.records import Refused


class RequestRefused(RftError):
    """Carries what the platform is told."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


def bad_request(message: str, *, code: str, param: str | None) -> RequestRefused:
    """The request cannot be answered as it is."""
    return RequestRefused(Refused(kind="bad_request", code=code, message=message, param=param))


def unavailable(message: str, *, code: str, retry_after_s: float) -> RequestRefused:
    """It can be answered later."""
    return RequestRefused(Refused(kind="unavailable", code=code, message=message, retry_after_s=retry_after_s))


def adapter_gone(model: str) -> RequestRefused:
    """Its checkpoint was deleted after the platform looked for it."""
    message = f"The checkpoint of the model '{model}' is no longer kept."
    return RequestRefused(Refused(kind="not_found", code="model_not_found", message=message, param="model"))
