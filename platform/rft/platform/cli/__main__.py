"""`python -m rft.platform.cli` is `rft`."""

from rft.platform.cli.app import main

if __name__ == "__main__":
    main()
