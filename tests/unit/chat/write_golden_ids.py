"""`python -m tests.unit.chat.write_golden_ids`: after a change that is meant to change token ids."""

import json

from tests.unit.chat.models import ALL
from tests.unit.chat.test_families import GOLDEN, golden_of

if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(golden_of(name), ensure_ascii=False)}" for name in ALL)
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
