"""What a killed process leaves behind is swept; nothing else is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rft.scratch.folder import ScratchFolder, sweep

_HOLDER = """
import sys, time
from pathlib import Path
from rft.scratch.folder import ScratchFolder
held = ScratchFolder("rft-x-", parent=Path(sys.argv[1]))
(held.path / "deep").mkdir()
(held.path / "deep" / "file").write_text("x")
print(held.path, flush=True)
time.sleep(600)
"""


def holder(parent: Path) -> tuple["subprocess.Popen[str]", Path]:
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(parent)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_killed_holders_folder_is_swept_and_a_living_ones_stays(tmp_path: Path) -> None:
    killed, left = holder(tmp_path)
    living, held = holder(tmp_path)
    with killed, living:
        assert sweep("rft-x-", parent=tmp_path) == []
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        assert sweep("rft-x-", parent=tmp_path) == [left]
        assert (left.exists(), held.exists()) == (False, True)
        living.kill()


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "rft-x-foreign"
    foreign.mkdir()
    (foreign / "precious").write_text("x")
    elsewhere = ScratchFolder("rft-y-", parent=tmp_path)
    os.symlink(elsewhere.path, tmp_path / "rft-x-link")
    (tmp_path / "rft-x-file").write_text("x")
    elsewhere._lock, lock = os.open(os.devnull, os.O_RDONLY), elsewhere._lock  # pyright: ignore[reportPrivateUsage]
    os.close(lock)  # as if its holder were gone: only its other name keeps it
    assert sweep("rft-x-", parent=tmp_path) == []
    assert (foreign / "precious").exists()
    assert elsewhere.path.exists()
    assert sweep("rft-x-", parent=tmp_path / "nowhere") == []


def test_a_folder_is_removed_by_its_holder(tmp_path: Path) -> None:
    held = ScratchFolder("rft-x-", parent=tmp_path)
    (held.path / "file").write_text("x")
    held.remove()
    assert list(tmp_path.iterdir()) == []


def test_sweepers_and_makers_side_by_side_lose_nothing(tmp_path: Path) -> None:
    loop = (
        "import sys\nfrom pathlib import Path\nfrom rft.scratch.folder import ScratchFolder, sweep\n"
        "for _ in range(300):\n    held = ScratchFolder('rft-x-', parent=Path(sys.argv[1]))\n"
        "    swept = sweep('rft-x-', parent=Path(sys.argv[1]))\n    assert not swept, swept\n"
        "    (held.path / 'mine').write_text('x')\n    held.remove()\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", loop, str(tmp_path)]) for _ in range(3)]
    started_s = time.monotonic()
    assert [worker.wait(250) for worker in workers] == [0, 0, 0], time.monotonic() - started_s
    assert list(tmp_path.iterdir()) == []
