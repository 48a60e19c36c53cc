"""For all tests."""

import signal

# Whoever runs us in the background may have us ignore Ctrl-C, and every process that we start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
