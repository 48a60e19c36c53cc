"""Memory that was freed is memory that is free, also between blocks that are in use."""

import subprocess
import sys

PROGRAM = """
import ctypes, resource
from rft.trainer.heap import return_freed_pages

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.mallopt(-3, 8 * 2**20)  # Nothing here is a large block.
freed, kept = [], []
for _ in range(100):
    block = libc.malloc(2**20)
    ctypes.memset(block, 1, 2**20)
    freed.append(block)
    kept.append(libc.malloc(4096))  # What follows is never the end of the heap.
full = resident()
for block in freed:
    libc.free(block)
holes = resident()
return_freed_pages()
print(full - holes, full - resident())
"""


def test_what_was_freed_between_blocks_in_use_goes_back_to_the_system() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    freed, returned = map(int, told.split())
    assert freed < 10 * 2**20
    assert returned > 90 * 2**20
