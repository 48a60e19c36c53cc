"""A grade finds nothing of earlier rows in the memory that it inherits."""

import pytest

from rft.core.grade import Grade
from tests.integration.graders.python_graders import judged, opened

# Walks the heap below the break and the interpreter's arenas, as far as they are mapped, and counts what a row left
# there. The pattern is no match of itself.
LOOK_AROUND = r"""
import ctypes, re

def pages(libc, start, end):
    known = (ctypes.c_ubyte * 1)()
    for page in range(start & ~4095, end, 4096):
        if libc.mincore(ctypes.c_void_p(page), ctypes.c_size_t(4096), known) == 0:
            yield ctypes.string_at(page, 4096)

def grade(sample, item):
    if "earlie" + "r-row" in str(item) + sample["output_text"]:
        if item.get("breaks"):
            raise ValueError(item["answer"])
        return 0.5
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    top = libc.sbrk(ctypes.c_long(0))
    places = [(top - 64 * 2**20, top)]
    arenas = {id(thing) >> 20 for thing in (object(), [], {}, item, sample, grade, pages, "x" * 99, b"y" * 300, 2**70)}
    places += [(arena << 20, (arena + 1) << 20) for arena in arenas]
    seen = b"".join(page for place in places for page in pages(libc, *place))
    assert len(seen) > 2**20 and re.search(rb"this-ro[w]s-own-text", seen)
    return len(re.findall(rb"earlie[r]-row-\d{12}", seen))
"""


@pytest.mark.parametrize("answer_chars", [40, 5_000, 300_000])
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_grade_finds_no_earlier_row_in_its_memory(answer_chars: int, breaks: bool) -> None:
    marker = "earlier-row-" + "7" * 12
    text = (marker + " ") * (answer_chars // len(marker))
    async with opened(LOOK_AROUND) as grader:
        for _ in range(5):
            await judged(grader, answer=text, item={"answer": text, "breaks": breaks})
        found = await judged(grader, answer="this-rows-own-text", item={"also": "this-rows-own-text"})
        assert isinstance(found, Grade), found
        assert found.reward == 0, f"{found.reward:g} remains of an earlier row, {found}"
