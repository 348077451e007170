"""The plan of the checked configuration, and how a rule says what it needs."""

import shlex
import sys

sys.path.insert(0, f"{workflow.basedir}/workflow")

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.plan import lines, start
from maieutic.plan.inputs import PAIRS, downloads, last_checks
from maieutic.plan.patterns import one_of, patterns
from maieutic.plan.rules import plan_of

try:
    plan = plan_of(config)
except UserError as error:
    raise WorkflowError(str(error)) from None

IMAGES = plan.config.containers
MODEL_JOB = start.model_resources(plan, workflow)


wildcard_constraints:
    **patterns(plan),


# In the prefix and not in params: where an interpreter lies must re-run nothing.
shell.prefix(
    "set -euo pipefail; "
    f"export PYTHONPATH={shlex.quote(f'{workflow.basedir}/workflow')} PYTHONUNBUFFERED=1"
    f" DRIVER={shlex.quote(start.interpreter(plan, workflow, 'driver'))}"
    f" SERVE={shlex.quote(start.interpreter(plan, workflow, 'serve'))}; "
)


def threads_of(wildcards):
    """The cores of a job of one model."""
    return plan.needs(wildcards).cpus


def memory_of(wildcards):
    """The memory of a job that asks somebody else's model, in MB."""
    return plan.needs(wildcards).mem_mb
