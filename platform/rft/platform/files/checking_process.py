"""The process that reads one large dataset: bytes on standard input, what was found as JSON on standard output."""

import os
import sys

from rft.platform.files.checking import DatasetReading, WantedProblems

_CHUNK_BYTES = 1 << 20
_NICENESS = 5


def main() -> None:
    """Read to the end, or until nothing that follows can change the result."""
    os.nice(_NICENESS)  # Requests go first.
    reading = DatasetReading(WantedProblems.model_validate_json(sys.argv[1]))
    while not reading.is_over and (chunk := sys.stdin.buffer.read(_CHUNK_BYTES)):
        reading.feed(chunk)
    sys.stdout.write(reading.end().model_dump_json())


if __name__ == "__main__":
    main()
