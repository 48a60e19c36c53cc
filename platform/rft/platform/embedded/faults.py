"""What stops the platform from starting, in words for the person who typed `rft up`."""

from rft.core.errors import RftError


class StartFailed(RftError):
    """Something the platform needs is missing or broken; the message says what to do."""


class AlreadyRunning(StartFailed):
    """Another supervisor holds this home."""
