"""`python -m rft.grader_gateway`: the grader gateway as a service."""

import sys

from rft.gateway_service.serving import serve
from rft.grader_gateway.app import create_app

if __name__ == "__main__":
    sys.exit(serve(create_app, program="python -m rft.grader_gateway", port=8789))
