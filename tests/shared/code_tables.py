"""Tables of the documentation whose first column names codes."""

import re
from pathlib import Path

_CODE = re.compile(r"`([^`]+)`")


def tables(page: Path, heading: str) -> dict[str, list[str]]:
    """The other cells by code, in the section that begins so. A row may name several codes; each stands once."""
    _, _, section = page.read_text().partition(f"\n## {heading}")
    assert section, f"no section {heading!r}"
    found: dict[str, list[str]] = {}
    for line in section.partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            codes, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            for code in _CODE.findall(codes):
                assert code not in found, f"{code} stands twice"
                found[code] = cells
    return found
