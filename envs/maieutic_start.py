"""Command `maieutic` of the installed package, which contains the whole workflow beside this module."""

import sys
from pathlib import Path


def main() -> int:
    """Run one command of the package. See `maieutic.cli.main`."""
    sys.path.insert(0, str(Path(__file__).parent / "maieutic_workflow/workflow"))
    from maieutic.cli import main as run

    return run()
