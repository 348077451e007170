"""Parser of SafeTutors' conversations about problems with a numeric answer."""

from __future__ import annotations

from maieutic.graders.grader import Grader
from maieutic.graders.leaks import first_leak

GRADERS = {"answer_leak": Grader(read_all=first_leak, descriptive=True)}
