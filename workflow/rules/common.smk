"""The plan of the checked configuration, and how a rule says what it needs."""

from maieutic.core import paths
from maieutic.core.collector import collect_seldom
from maieutic.plan import lines, start
from maieutic.plan.inputs import downloads, last_checks
from maieutic.plan.patterns import one_of, patterns
from maieutic.plan.rules import plan_of

collect_seldom()
try:
    plan = plan_of(config)
except UserError as error:
    raise WorkflowError(error.lines) from None

IMAGES = plan.config.containers
start.say_after_dry_run(plan, workflow)
MODEL_JOB = start.model_resources(plan, workflow)


wildcard_constraints:
    **patterns(plan),


# In the prefix and not in params: where an interpreter lies must re-run nothing. Threads that numpy's linear algebra
# starts when it is imported cost a job of one core more than the job itself.
VARIABLES = lines.variables(
    PYTHONPATH=str(PACKAGE),
    PYTHONUNBUFFERED="1",
    OPENBLAS_NUM_THREADS="1",
    PYDANTIC_DISABLE_PLUGINS="1",
    DRIVER=start.interpreter(plan, workflow, "driver"),
    SERVE=start.interpreter(plan, workflow, "serve"),
    **start.shared_servers(plan, workflow),
    **start.budget(plan),
    **start.run_files(workflow),
)
shell.prefix(f"set -euo pipefail; export {VARIABLES}; ")
