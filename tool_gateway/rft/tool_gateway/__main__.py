"""`python -m rft.tool_gateway`: the tool gateway as a service."""

import sys

from rft.gateway_service.serving import serve
from rft.tool_gateway.app import create_app

if __name__ == "__main__":
    sys.exit(serve(create_app, program="python -m rft.tool_gateway", port=8788))
