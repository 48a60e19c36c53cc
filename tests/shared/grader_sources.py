"""Sources of python graders, sound and hard to read."""

SOUND = [
    "def grade(sample, item):\n    return 1.0",
    "grade = lambda sample, item: 1.0",
    "from math import pow as grade",
    "try:\n    def grade(s, i): return 1\nexcept ValueError:\n    pass",
    "class Judge:\n    def __call__(self, s, i): return 1\ngrade = Judge()",
    "import re\nBAD = '\\d'\ndef grade(s, i): return 1",
    "raise SystemExit('never run')\ndef grade(s, i): return 1",
    "if True:\n    def grade(s, i): return 1",
    "(grade := lambda s, i: 1)",
    "import math as grade",
    "import collections.abc, numpy\nfrom re import findall\ndef grade(s, i): return 1",
    "try:\n    import nothing_of_this_name\nexcept ImportError:\n    pass\ndef grade(s, i): return 1",
    "def grade(s, i): return 1\nWORDS = 'Ünïcode: nai\u0308ve, 日本語'",
]


def nested(depth: int) -> str:
    """Every level doubles what the compiler makes of it."""
    opened = "".join(f"{' ' * i}try:\n{' ' * i} pass\n{' ' * i}finally:\n" for i in range(depth))
    return f"{opened}{' ' * depth}pass\ndef grade(s, i): return 1\n"
