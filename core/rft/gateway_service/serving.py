"""Starts a gateway service as a process: command line, logging, the web server."""

import argparse
import ipaddress
import logging
import sys
from collections.abc import Callable, Sequence

import uvicorn
from fastapi import FastAPI

from rft.core.bad_settings import BadSetting
from rft.core.gc_tuning import collect_rarely
from rft.core.open_files import allow_many_open_files
from rft.gateway_service.settings import ServiceSettings, service_settings

_BAD_SETTINGS = 2
"""How it ends where starting it again changes nothing; its unit in deploy/ names the number. argparse's, too."""
_GRACE_S = 10
"""How long calls may go on after a request to stop; their trainers make them again elsewhere."""


def serve(
    make_app: Callable[[ServiceSettings], FastAPI],
    *,
    program: str,
    port: int,
    arguments: Sequence[str] | None = None,
) -> int:
    """Serve until told to stop; the exit code. `port` is the default one."""
    parser = argparse.ArgumentParser(
        prog=program, description="Settings come from the environment: see docs/gateways.md."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=port, help="port; 0 takes a free one (default: %(default)s)")
    given = parser.parse_args(arguments)
    try:
        settings = service_settings()
    except BadSetting as problem:
        sys.stderr.write(f"{program}: {problem}\n")
        return _BAD_SETTINGS
    if settings.gateway_token is None and not _is_this_machine(given.host):
        sys.stderr.write(f"{program}: set RFT_GATEWAY_TOKEN to listen on {given.host}\n")
        return _BAD_SETTINGS
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = uvicorn.Config(
        make_app(settings),
        host=given.host,
        port=given.port,
        http="h11",  # It bounds a request's head; callers keep their connections, and send few requests.
        log_config=None,
        access_log=False,
        backlog=4096,
        timeout_graceful_shutdown=_GRACE_S,
    )
    collect_rarely()
    allow_many_open_files()
    uvicorn.Server(config).run()
    return 0


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
