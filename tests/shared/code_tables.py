"""Tables of the documentation whose first column names codes."""

import re
from pathlib import Path

_CODE = re.compile(r"`([^`]+)`")


def tables(page: Path, heading: str | None = None) -> dict[str, list[str]]:
    """The other cells by code, of one section or of the whole page. A row may name several codes; a code may stand in
    several rows, whose cells are then those of the last."""
    text = page.read_text()
    if heading is not None:
        _, _, section = text.partition(f"\n## {heading}\n")
        assert section, f"no section {heading!r}"
        text = section.partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            codes, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            found |= dict.fromkeys(_CODE.findall(codes), cells)
    return found
