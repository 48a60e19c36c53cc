"""Sources of python graders are checked before anything is made of them: the API itself never reads one."""

import logging

from rft.grader_gateway.builtin.sandbox.slots import SlotShare
from rft.grader_gateway.builtin.source_check import SourcesUnchecked, first_bad_source
from rft.platform.api.errors import BadRequest, Unavailable
from rft.platform.orders.grader_schemas import Grader, PythonGrader
from rft.platform.orders.grader_specification import leaves

_LOG = logging.getLogger(__name__)


async def refuse_bad_sources(grader: Grader, *, param: str, share: SlotShare | None = None) -> None:
    """Raises BadRequest with the compiler's words for a source that cannot grade, Unavailable where nobody can tell.

    `share`: of the checks at once, where they are a caller's own.
    """
    found = [(path, leaf.source) for path, _, leaf in leaves(grader, param) if isinstance(leaf, PythonGrader)]
    try:
        bad = await first_bad_source([source for _, source in found], share=share)
    except SourcesUnchecked as error:
        _LOG.error("the sources of a grader were not checked: %s", error)
        message = "The grader's source could not be checked just now; try again."
        raise Unavailable(message, param=param, code="source_not_checked") from error
    if bad is not None:
        place = f"{found[bad.index][0]}.source"
        raise BadRequest(f"Invalid '{place}': {bad.problem}.", param=place, code="invalid_value")
