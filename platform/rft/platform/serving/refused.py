"""A request that cannot be answered on account of one of its fields."""

from rft.platform.api.errors import BadRequest


def refused(param: str, why: str, *, code: str = "invalid_value") -> BadRequest:
    """Names the field, and says what is wrong with it."""
    return BadRequest(f"Invalid '{param}': {why}.", param=param, code=code)
