"""An endpoint is there as long as the process that listens, whoever has the number of that process later."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from rft.serving_wire.endpoint_file import endpoint_file, read_endpoint, remove_endpoint
from rft.serving_wire.records import ServingEndpoint

_LISTENER = """
import sys, time
from pathlib import Path
from rft.serving_wire.endpoint_file import endpoint_file
from rft.serving_wire.records import ServingEndpoint
with endpoint_file(Path(sys.argv[1]), ServingEndpoint(port=80, token="t", pid=int(sys.argv[2]))):
    print("listening", flush=True)
    time.sleep(600)
"""


def test_the_endpoint_of_a_killed_process_is_gone_though_another_has_its_number(tmp_path: Path) -> None:
    another = str(os.getpid())
    with subprocess.Popen([sys.executable, "-c", _LISTENER, tmp_path, another], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert read_endpoint(tmp_path) == ServingEndpoint(port=80, token="t", pid=os.getpid())
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert read_endpoint(tmp_path) is None
    ours = ServingEndpoint(port=81, token="u", pid=os.getpid())
    with endpoint_file(tmp_path, ours):
        assert [read_endpoint(tmp_path) for _ in range(3)] == [ours] * 3
        assert sorted(path.name for path in tmp_path.iterdir()) == ["endpoint.json"]
    assert read_endpoint(tmp_path) is None


def test_no_file_and_one_that_cannot_be_read_are_no_endpoint(tmp_path: Path) -> None:
    assert read_endpoint(tmp_path) is None
    remove_endpoint(tmp_path)
    with endpoint_file(tmp_path, ServingEndpoint(port=80, token="t", pid=1)):
        (tmp_path / "endpoint.json").write_text('{"port": 80')
        assert read_endpoint(tmp_path) is None
