"""Writing to a descriptor without a buffer."""

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Everything, also where the system takes it in pieces."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
