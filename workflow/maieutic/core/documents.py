"""YAML files: one safe reader for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from maieutic.core.errors import UserError

try:  # libyaml's is thirteen times as fast, and every job reads cards
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # a PyYAML without it
    from yaml import SafeLoader  # type: ignore[assignment]


def read_yaml(path: Path, fix: str = "mend the file") -> Any:
    """The content of a YAML file. Raises UserError for one that cannot be read safely."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(str(path), f"cannot be read: {' '.join(str(error).split())}", fix) from None
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise UserError(str(path), f"cannot be read: not YAML that can be read safely: {problem}", fix) from None
