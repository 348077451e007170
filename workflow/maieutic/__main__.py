"""`python -m maieutic`."""

import sys

from maieutic.cli import main

sys.exit(main())
