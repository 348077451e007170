"""`python -m maieutic`."""

import gc
import os
import sys

# NumPy's library starts a thread a core when it is loaded, which costs more than all that the intervals ask of it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.disable()  # what is imported stays; the command line sets the collector up again

from maieutic.cli import main  # noqa: E402

sys.exit(main())
