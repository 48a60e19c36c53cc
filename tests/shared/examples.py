"""How many examples property tests try: a part of them by default, all of them with RFT_TEST_EXAMPLES=all."""

import os

IS_ALL = os.environ.get("RFT_TEST_EXAMPLES") == "all"
_AT_LEAST = 5


def examples(of_all: int) -> int:
    """A quarter of them by default: each run tries others, so what one misses another finds."""
    return of_all if IS_ALL else min(of_all, max(_AT_LEAST, of_all // 4))
