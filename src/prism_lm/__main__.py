"""`python -m prism_lm` is the command `prism`."""

import sys

from prism_lm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
