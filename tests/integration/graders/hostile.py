"""Python graders that try to get out, or to take the machine down. Each returns 1 where it got what it wanted."""

import platform
from dataclasses import dataclass
from textwrap import dedent, indent


@dataclass(frozen=True, slots=True)
class Hostile:
    name: str
    source: str
    contained_by: str
    """Words of the failure; none where it depends on the interpreter."""


def _hostile(name: str, body: str, contained_by: str, *, before: str = "") -> Hostile:
    asked = "if item.get('is_honest'):\n    return 0.5\n"
    source = f"{dedent(before).strip()}\n\ndef grade(sample, item):\n{indent(asked + body, '    ')}\n    return 1\n"
    return Hostile(name, source, contained_by)


_SYSCALL = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    def call(number, *arguments):
        if libc.syscall(ctypes.c_long(number), *arguments) < 0:
            raise OSError(ctypes.get_errno(), "refused")
"""
_NO = "PermissionError"

FILES = [
    _hostile("reads the password file", "open('/etc/passwd').read()", _NO),
    _hostile("reads the password file by descriptor", "import os; os.open('/etc/shadow', os.O_RDONLY)", _NO),
    _hostile("lists the root folder", "import os; os.listdir('/')", _NO),
    _hostile("lists a home", "import os; list(os.scandir('/root'))", _NO),
    _hostile("reads the environment of its parent", "import os; open(f'/proc/{os.getppid()}/environ').read()", _NO),
    _hostile("reads its own environment", "import os; assert os.environ.get('PATH') or os.environ['HOME']", "KeyError"),
    _hostile("reads the environment that it started with", "open('/proc/self/environ', 'rb').read()", _NO),
    _hostile("reads its command line", "open('/proc/self/cmdline', 'rb').read()", _NO),
    _hostile("writes its own memory", "open('/proc/self/mem', 'r+b').write(b'x')", _NO),
    _hostile("reads its parent's memory", "import os; open(f'/proc/{os.getppid()}/mem', 'rb').read(1)", _NO),
    _hostile("reads the platform's code", "import rft.core.spec", "Error"),
    _hostile("writes a file", "open('out.txt', 'w').write('x')", _NO),
    _hostile("writes a temporary file", "import tempfile; tempfile.NamedTemporaryFile()", "Error"),
    _hostile("appends to a library", "import json; open(json.__file__, 'a').write('x')", _NO),
    _hostile("makes a folder", "import os; os.mkdir('here')", _NO),
    _hostile("removes a file", "import os; os.unlink('/etc/hostname')", _NO),
    _hostile("removes its folder", "import os; os.rmdir(os.getcwd())", _NO),
    _hostile("renames a file", "import os; os.rename('/etc/hostname', '/etc/hostname2')", _NO),
    _hostile("links a file", "import os; os.symlink('/etc/passwd', 'here')", _NO),
    _hostile("changes rights", "import os; os.chmod('/tmp', 0o777)", _NO),
    _hostile("changes its folder", "import os; os.chdir('/')", _NO),
    _hostile("changes its root", "import os; os.chroot('/tmp')", _NO),
    _hostile("makes a file in memory", "import os; os.memfd_create('x')", _NO),
    _hostile("makes a pipe by name", "import os; os.mkfifo('/tmp/rft-hostile')", _NO),
    _hostile("mounts", "call(165, b'none', b'/tmp', b'tmpfs', 0, None)", _NO, before=_SYSCALL),
    _hostile("asks an io ring to open files", "call(425, 8, ctypes.create_string_buffer(256))", _NO, before=_SYSCALL),
]

NETWORK = [
    _hostile("opens a socket", "import socket; socket.socket()", _NO),
    _hostile("connects", "import socket; socket.create_connection(('127.0.0.1', 80), 1)", _NO),
    _hostile("sends a datagram", "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", _NO),
    _hostile("opens a unix socket", "import socket; socket.socket(socket.AF_UNIX)", _NO),
    _hostile("makes a pair of sockets", "import socket; socket.socketpair()", _NO),
    _hostile("resolves a name", "import socket; socket.getaddrinfo('example.com', 80)", "gaierror"),
    _hostile("fetches a page", "import urllib.request; urllib.request.urlopen('http://127.0.0.1/')", "URLError"),
    _hostile("asks the kernel over netlink", "import socket; socket.socket(16, 3, 0)", _NO),
]

PROCESSES = [
    _hostile("forks", "import os; os.fork()", _NO),
    _hostile("is a fork bomb", "import os\nwhile True:\n    os.fork()", _NO),
    _hostile("forks past the library", "call(57)", _NO, before=_SYSCALL),
    _hostile("clones past the library", "call(56, 17, None, None, None, None)", _NO, before=_SYSCALL),
    _hostile("clones in the new way", "call(435, ctypes.create_string_buffer(88), 88)", "Error", before=_SYSCALL),
    _hostile("runs a program", "import subprocess; subprocess.run(['/bin/true'])", "Error"),
    _hostile("runs a shell", "import os\nif os.system('true') != 0:\n    raise OSError('no shell')", "no shell"),
    _hostile("becomes a program", "import os; os.execv('/bin/true', ['true'])", _NO),
    _hostile("starts a process pool", "import multiprocessing as m; m.Pool(2)", "Error"),
    _hostile("starts a thread", "import threading; threading.Thread(target=print).start()", "can't start new thread"),
    _hostile("kills its parent", "import os; os.kill(os.getppid(), 9)", _NO),
    _hostile("kills everything", "import os; os.kill(-1, 9)", _NO),
    _hostile("kills its group", "import os; os.killpg(0, 9)", _NO),
    _hostile("signals its parent past the library", "import os; call(62, os.getppid(), 9)", _NO, before=_SYSCALL),
    _hostile("traces its parent", "import os; call(101, 16, os.getppid(), None, None)", _NO, before=_SYSCALL),
    _hostile(
        "writes its parent's memory",
        "import os; call(311, os.getppid(), None, 0, None, 0, 0)",
        _NO,
        before=_SYSCALL,
    ),
    _hostile("opens its parent as a file", "import os; call(434, os.getppid(), 0)", _NO, before=_SYSCALL),
    _hostile("asks to be told by signals", "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())", _NO),
    _hostile("types into a terminal", "import fcntl; fcntl.ioctl(0, 0x5412, b'x')", _NO),
    _hostile("raises its limits", "import resource as r; r.setrlimit(r.RLIMIT_AS, (-1, -1))", "Error"),
    _hostile("outlives its host", "call(157, 1, 0, 0, 0, 0)", _NO, before=_SYSCALL),
    _hostile("takes another user's place", "import os; os.setuid(0)", _NO),
    _hostile("makes namespaces", "call(272, 0x10000000)", _NO, before=_SYSCALL),
    _hostile("loads a filter of its own", "call(317, 1, 0, None)", _NO, before=_SYSCALL),
    _hostile(
        "forks by the calls of 32-bit programs",
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "page.write(bytes.fromhex('b802000000cd80c3'))\n"
        "ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()",
        "crashed (SIGSYS)",
    ),
    _hostile("uses the other table of numbers", "call(0x40000000 + 57)", _NO, before=_SYSCALL),
]

HUNGER = [
    _hostile("fills memory with text", "x = 'a' * (8 * 1024**3)", "memory"),
    _hostile("fills memory with a list", "x = [0] * (1024**3)", "memory"),
    _hostile("fills memory bit by bit", "x = []\nwhile True:\n    x.append(bytearray(16 * 1024**2))", "memory"),
    _hostile("maps memory", "import mmap; mmap.mmap(-1, 64 * 1024**3)", "Error"),
    _hostile("never ends", "while True:\n    pass", "took longer than"),
    _hostile("sleeps", "import time; time.sleep(3600)", "took longer than"),
    _hostile("ignores signals", "import signal; signal.pause()", "took longer than"),
    _hostile("counts in one call", "sum(range(10**12))", "took longer than"),
    _hostile("backtracks", "import re; re.match(r'(a+)+$', 'a' * 64 + 'b')", "took longer than"),
    _hostile(
        "catches everything",
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
        "took longer than",
    ),
    _hostile("never ends before the grade", "pass", "took longer than", before="while True:\n    pass"),
    _hostile("recurses", "def f(): return f()\nf()", "RecursionError"),
    _hostile(
        "recurses past Python's limit",
        "import sys; sys.setrecursionlimit(10**9)\nf = lambda: list(map(lambda _: f(), [1]))\nf()",
        "",
    ),
    _hostile("nests too deep", "x = []\nfor _ in range(10**6): x = [x]\nrepr(x)", "Error"),
    _hostile("raises a huge error", "raise ValueError('x' * 10**8)", "raised ValueError"),
]

ENDINGS = [
    _hostile("exits", "import sys; sys.exit(0)", "SystemExit"),
    _hostile("exits without a word", "import os; os._exit(0)", "without a verdict"),
    _hostile("crashes", "import ctypes; ctypes.string_at(0)", "crashed (SIGSEGV)"),
    _hostile("aborts", "import os; os.abort()", "crashed"),
    _hostile("closes everything", "import os; os.closerange(0, 4096)", "without a verdict"),
    _hostile("raises an error that cannot be shown", "raise E()", "without readable words",
             before="class E(Exception):\n    def __str__(self): raise SystemExit"),
    _hostile("raises what is no exception", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    _hostile("says NaN", "return float('nan')", "not finite"),
    _hostile("says infinity", "return float('-inf')", "not finite"),
    _hostile("says nothing", "return None", "returned nothing"),
    _hostile("says text", "return '1.0'", "type str"),
    _hostile("says a list", "return [1.0]", "type list"),
    _hostile("says very much", "return 'x' * 10**8", "type str"),
    _hostile("says what only looks like a number", "return N()", "type N",
             before="class N:\n    def __float__(self): return 1.0"),
    _hostile("says a number that lies", "return N(1.0)", "ValueError",
             before="class N(float):\n    def __float__(self): raise ValueError('no')"),
    _hostile(
        "writes garbage to every descriptor",
        "import os\nfor fd in range(4096):\n    try: os.write(fd, b'garbage' * 99)\n    except OSError: pass\n"
        "os._exit(0)",
        "without a verdict",
    ),
    _hostile("floods the verdict", "import os\nwhile True:\n    for fd in range(3, 64):\n"
             "        try: os.write(fd, b'x' * 65536)\n        except OSError: pass", "more than a verdict"),
    _hostile("forges NaN", "import os\nfor fd in range(3, 4096):\n    try: os.write(fd, b'{\"score\": NaN}')\n"
             "    except OSError: pass\nos._exit(0)", "not finite"),
    _hostile(
        "says that this machine refuses it",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{\"refused\": \"this machine is broken\"}')\n"
        "    except OSError: pass\nos._exit(0)",
        "without a verdict",
    ),
    _hostile(
        "says in its first breath that this machine refuses it",
        "pass",
        "without a verdict",
        before="import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{\"refused\": \"no\"}')\n"
        "    except OSError: pass\nos._exit(0)",
    ),
    _hostile("raises half a surrogate pair", "raise ValueError('\\ud800 \\x00')", "raised ValueError"),
    _hostile("patches what judges it", "import json\njson.dumps = lambda *a: '{}'\nreturn 1", "without a verdict"),
    _hostile("walks up the stack", "import sys\nsys._getframe(2).f_locals['limits'].timeout_s = 9e9", "Error"),
]  # fmt: skip


def _nested(depth: int) -> str:
    """Each level doubles what the compiler makes of it."""
    opened = "".join(f"{' ' * i}try:\n{' ' * i} pass\n{' ' * i}finally:\n" for i in range(depth))
    return f"{opened}{' ' * depth}pass\ndef grade(sample, item): return 1\n"


COMPILER = [
    Hostile("takes the compiler's memory", _nested(19), "compiled"),
    Hostile("takes the compiler's time", _nested(60), "compiled"),
    Hostile("cannot be compiled", "def grade(sample, item): return 1\nreturn 2", "outside function"),
    Hostile("breaks out of nothing", "def grade(sample, item): break", "outside loop"),
]
"""Sources that can be read but not compiled: what they would do is never begun."""

_NUMBERS_ARE_RIGHT = platform.machine() == "x86_64"
ALL = [
    one
    for one in (*FILES, *NETWORK, *PROCESSES, *HUNGER, *ENDINGS, *COMPILER)
    if _NUMBERS_ARE_RIGHT or not ("libc.syscall" in one.source or "PROT_EXEC" in one.source)
]
