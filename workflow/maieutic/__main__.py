"""`python -m maieutic`."""

import gc
import sys

gc.disable()  # what is imported stays; the command line sets the collector up again

from maieutic.cli import main  # noqa: E402

sys.exit(main())
