"""The data directory: one supervisor at a time, where its servers keep data and sockets, what it remembers."""

import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import Field, ValidationError

from rft.core.base import Record
from rft.platform.embedded.faults import AlreadyRunning, StartFailed
from rft.platform.embedded.process import ProcessId, end_all, identify, spawn
from rft.platform.embedded.service_user import ServiceUser, choose_service_user
from rft.scratch.disk import free_bytes, is_disk_full

SYSTEM_ROOT = Path("/var/lib/rft")
_SERVERS = ("postgres", "valkey")
_SOCKET_NAME_BYTES = len("/.s.PGSQL.5432.lock")
_LOG_BYTES = 20_000_000
_SOCKET_PATH_BYTES = 107
"""What sockaddr_un holds, its final zero taken off."""


class State(Record):
    """`state.json`: what one run of the supervisor leaves for the next."""

    socket_dir: str | None = None
    server_root: str | None = None
    children: dict[str, ProcessId] = Field(default_factory=dict[str, ProcessId])


class Home:
    """One data directory, locked by us while `hold` is open."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.user = choose_service_user()
        self._changing = threading.RLock()

    @property
    def logs(self) -> Path:
        """Output of every child."""
        return self.path / "logs"

    @property
    def secrets(self) -> Path:
        """Generated passwords and keys, for our eyes only."""
        return self.path / "secrets"

    @contextmanager
    def hold(self) -> Generator[None]:
        """Create the directory, take its lock; raises AlreadyRunning, StartFailed."""
        try:
            # root's servers run as somebody else and must get through, but need not see what lies here
            _make_folder(self.path, 0o711 if os.geteuid() == 0 else 0o700)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            self.secrets.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise StartFailed(f"the home {self.path} cannot be used: {problem.strerror}; set RFT_HOME") from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            os.close(lock)
            raise AlreadyRunning(f"another `rft up` is using {self.path}") from problem
        try:
            for log in self.logs.glob("*.log"):
                if log.stat().st_size > _LOG_BYTES:
                    log.replace(log.with_suffix(".log.1"))
            yield
        finally:
            os.close(lock)

    def is_serving(self) -> bool:
        """Whether servers have a place to be reached at: from their start to their orderly end."""
        try:
            return self.state().socket_dir is not None
        except PermissionError:
            return False

    def state(self) -> State:
        """What the last run left; empty the first time."""
        file = self.path / "state.json"
        try:
            state = State.model_validate_json(file.read_bytes())
        except (FileNotFoundError, ValidationError):  # all of it is found anew: worth no failed start after a power cut
            return State()
        # In a copy of a home, processes and sockets are those of the other one, which may be running.
        return state if self._is_own(state.server_root) else State(server_root=state.server_root)

    def _remember(self, **changes: object) -> None:
        """Change fields of `state.json`; servers start side by side, and none may undo what another remembers."""
        with self._changing:
            state = self.state().model_copy(update=changes)
            write_private(self.path / "state.json", state.model_dump_json(indent=1))

    def cut_logs(self) -> None:
        """Logs of living children that have grown large begin anew, what they held beside them.

        Children append: what they write next is the new beginning. A line that comes between the two steps is lost,
        and all that a log held where the disk has no room for it twice. A log that cannot be cut is left as it is.
        """
        for log in self.logs.glob("*.log"):
            with suppress(OSError):
                _cut(log)

    def log(self, name: str) -> Path:
        """Where the child of this name writes."""
        return self.logs / f"{name}.log"

    def spawn(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        death_signal: signal.Signals,
        as_service: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a child (`process.spawn`) and remember it, so that a later run can end it should it outlive us.

        Raises OSError, and leaves no child then.
        """
        user = self.user if as_service else None
        log = self.log(name)
        child = spawn(argv, log=log, env=env, death_signal=death_signal, user=user, pass_fds=pass_fds)
        identity = identify(child.pid)
        if identity is not None:
            try:
                with self._changing:
                    self._remember(children={**self.state().children, name: identity})
            except OSError:  # A full disk. Whoever tries again must not find this one in the way, known to nobody.
                child.kill()
                child.wait()
                raise
        return child

    async def end_children(self) -> None:
        """End whatever is left of the remembered children."""
        await end_all(self.state().children.values(), signal.SIGINT, 10.0)
        self._remember(children={})

    def remove_socket_dir(self) -> None:
        """Leave nothing in the system's temporary folders. Raises OSError."""
        state = self.state()
        if state.socket_dir is not None:
            shutil.rmtree(state.socket_dir, ignore_errors=True)
            self._remember(socket_dir=None)

    async def leave(self) -> None:
        """End what is left of the children and remove their sockets, then remember both. Raises OSError."""
        await end_all(self.state().children.values(), signal.SIGINT, 10.0)
        self.remove_socket_dir()
        self._remember(children={})

    def secret(self, name: str) -> str:
        """A random secret, made once and kept in a 0600 file."""
        file = self.secrets / name
        if not file.exists():
            write_private(file, secrets.token_urlsafe(32), is_durable=True)
        return file.read_text()

    def server_root(self) -> Path:
        """Folder whose children the servers own: the home, or under /var/lib where their user cannot get in."""
        with self._changing:  # Both servers ask for it at the same time, and the first makes it.
            known = self.state().server_root
            if known is not None and self._is_own(known):
                return Path(known)
            root = self.path
            if self.user is not None and not self.user.can_enter(root):
                root = _system_root(self.path)
                _make_folder(SYSTEM_ROOT, 0o711)
                _make_folder(root, 0o711)
                if not self.user.can_enter(root):
                    raise StartFailed(f"user {self.user.name} reaches neither {self.path} nor {root}; set RFT_HOME")
            if known is not None and not any((root / name).exists() for name in _SERVERS):
                raise StartFailed(
                    f"{self.path} was copied or moved from elsewhere, and its servers' data lies in {known}, which"
                    f" another home may be using: copy `postgres` and `valkey` from there to {root}"
                )
            self._remember(server_root=str(root))
            return root

    def _is_own(self, server_root: str | None) -> bool:
        """Whether a home at this path keeps its servers' data there; true where nothing is known."""
        if server_root is None:
            return True
        real, given = self.path.resolve(), Path(server_root)
        return given.resolve() == real or given in (_system_root(self.path), _system_root(real))

    def written_folders(self) -> set[Path]:
        """The home, and the server root where one is known. Writes nothing: a disk may be full. Raises OSError."""
        known = self.state().server_root
        return {self.path} if known is None else {self.path, Path(known)}

    def server_dir(self, name: str) -> Path:
        """A 0700 folder below the server root that belongs to whoever runs the servers."""
        folder = self.server_root() / name
        folder.mkdir(mode=0o700, exist_ok=True)
        self.give(folder)
        return folder

    def give(self, path: Path) -> None:
        """Hand a file or folder to the user who runs the servers."""
        if self.user is not None:
            os.chown(path, self.user.uid, self.user.gid)

    def socket_dir(self) -> Path:
        """A short, private folder for Unix sockets, the same from run to run while it lasts."""
        with self._changing:
            return self._kept_socket_dir() or self._new_socket_dir()

    def _kept_socket_dir(self) -> Path | None:
        state = self.state()
        if state.socket_dir is None:
            return None
        known = Path(state.socket_dir)
        if not known.exists() and known.parent.exists():  # swept away while we run: children know this name
            known.mkdir(mode=0o700)
            self.give(known)
        return known if _is_private_dir(known, self.user) else None

    def _new_socket_dir(self) -> Path:
        for parent in _socket_parents():
            try:
                folder = Path(tempfile.mkdtemp(prefix="rft-", dir=parent))
            except OSError:
                continue
            if _is_short(folder):
                self.give(folder)
                self._remember(socket_dir=str(folder))
                return folder
            folder.rmdir()
        raise StartFailed("no writable folder with a short path for Unix sockets; make /tmp writable")


def _system_root(home: Path) -> Path:
    """Where the servers of a home keep their data that their user cannot enter."""
    return SYSTEM_ROOT / hashlib.sha256(str(home).encode()).hexdigest()[:12]


def _make_folder(folder: Path, mode: int) -> None:
    """Make it with this very mode, whatever our umask; one that exists is left as it is."""
    if not folder.exists():
        folder.mkdir(parents=True)
        folder.chmod(mode)


def _socket_parents() -> list[str]:
    """Where sockets may go, best first; the user's runtime folder is closed to root's service user."""
    first = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "")
    return [folder for folder in (first, tempfile.gettempdir(), "/tmp") if folder]


def _is_short(folder: Path) -> bool:
    return len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES


def _is_private_dir(folder: Path, user: ServiceUser | None) -> bool:
    """A real folder of the right owner, closed to others: nobody can have put it there for us."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    owner = user.uid if user else os.geteuid()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and stat.S_IMODE(found.st_mode) == 0o700


def write_private(file: Path, text: str, *, is_durable: bool = False) -> None:
    """Write a 0600 file so that a reader sees the old content or the new, never half.

    `is_durable`: not even a power cut loses it once this returns.
    """
    handle, temporary = tempfile.mkstemp(prefix=file.name, dir=file.parent)  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
            if is_durable:
                out.flush()
                os.fsync(out.fileno())
        os.replace(temporary, file)
    except OSError:
        os.unlink(temporary)
        raise


def _cut(log: Path) -> None:
    """Raises OSError."""
    size = log.stat().st_size
    if size <= _LOG_BYTES:
        return
    earlier = log.with_suffix(".log.1")
    earlier.unlink(missing_ok=True)
    if free_bytes(log.parent) > size + _LOG_BYTES:  # Else whoever writes to the disk meanwhile would find it full.
        try:
            shutil.copyfile(log, earlier)
        except OSError as error:
            earlier.unlink(missing_ok=True)
            if not is_disk_full(error):
                raise
    os.truncate(log, 0)
