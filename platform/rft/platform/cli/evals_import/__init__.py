"""`rft evals import`: what `examples/evals_export.py` took out of the hosted service, carried over to a platform.

`export` reads and verifies, `orders` says what to ask for (pure), `importing` asks for it.
"""
