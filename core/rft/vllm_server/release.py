"""The release of vLLM that the platform works with. A newer one is taken by changing this and running its tests."""

VERSION = "0.31.0"
