"""`python -m ablate`: the command line where the `ablate` script is not installed."""

import sys

from ablate.cli import main

if __name__ == "__main__":
    sys.exit(main())
