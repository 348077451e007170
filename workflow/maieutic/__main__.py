"""Entry point of `python -m maieutic`."""

import gc
import os
import sys

# OpenBLAS, which NumPy loads, would start one thread per core. Starting the threads takes longer than computing all
# confidence intervals with one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.disable()  # not needed during imports, whose objects are never freed; `collect_garbage_rarely` enables it again

from maieutic.cli import main  # noqa: E402

sys.exit(main())
