"""Entry point of `python -m maieutic`."""

import gc
import os
import sys

# OpenBLAS, which NumPy loads, starts a thread per core. That takes longer than all computations of the intervals.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.disable()  # imported objects are never freed; `collect_garbage_rarely` enables the collector again

from maieutic.cli import main  # noqa: E402

sys.exit(main())
