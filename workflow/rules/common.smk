"""The plan of the validated configuration, and helpers for the rules' parameters and resources."""

from maieutic.core import paths
from maieutic.core.garbage_collection import collect_garbage_rarely
from maieutic.plan import shell_lines, run_hooks
from maieutic.plan.inputs import download_files, last_checks
from maieutic.plan.wildcard_patterns import one_of, constraints_of
from maieutic.plan.rules import plan_of

collect_garbage_rarely()
try:
    plan = plan_of(config)
except UserError as error:
    raise WorkflowError(error.lines) from None

IMAGES = plan.config.containers
run_hooks.print_requests_after_dry_run(plan, workflow)
MODEL_JOB = run_hooks.model_resources(plan, workflow)


wildcard_constraints:
    **constraints_of(plan),


# The interpreter is set in the prefix, not in params, since a changed path must not cause re-runs. OpenBLAS gets one
# thread: the threads that it starts when numpy is imported cost a one-core job more than its own work.
VARIABLES = shell_lines.environment_assignments(
    PYTHONPATH=str(PACKAGE),
    PYTHONUNBUFFERED="1",
    OPENBLAS_NUM_THREADS="1",
    PYDANTIC_DISABLE_PLUGINS="1",
    DRIVER=run_hooks.interpreter(plan, workflow, "driver"),
    SERVE=run_hooks.interpreter(plan, workflow, "serve"),
    **run_hooks.shared_servers_variable(plan, workflow),
    **run_hooks.budget_variable(plan),
    **run_hooks.run_files_variable(workflow),
)
shell.prefix(f"set -euo pipefail; export {VARIABLES}; ")
