"""The plan, made from the validated configuration, and the helpers that all rules share.

In a rule, `plan.select(FUNCTION)` marks an input that depends on the run's selection. All other paths are literal.
"""

from maieutic.core import paths
from maieutic.launch import hooks
from maieutic.launch.shell_lines import DRIVER, SERVE, LiteralWord, command, environment_assignments
from maieutic.launch.shell_lines import constraints_of, one_of
from maieutic.plan import inputs
from maieutic.run_plan import plan_of

try:
    plan = plan_of(config)
except UserError as error:
    raise WorkflowError(error.lines) from None

IMAGES = hooks.images_of(plan)
RUN = plan.run_folder  # folder of this run's report, relative to results/
try:
    hooks.check_slurm_options(plan, workflow)
    MODEL_JOB = hooks.model_resources(plan, workflow)
except UserError as error:
    raise WorkflowError(error.lines) from None
hooks.print_requests_after_dry_run(plan, workflow)
# Returns the parameters of a rule: the digest of its command's code, and its job as JSON.
job = plan.job_parameters


container: IMAGES.driver  # rules that use GPUs set IMAGES.serve


wildcard_constraints:
    **constraints_of(plan),


# The interpreter is set in the prefix and not in params, since a changed path must not cause re-runs. OpenBLAS is
# limited to one thread, because starting its threads when NumPy is imported takes longer than the work of a small job.
VARIABLES = environment_assignments(
    PYTHONPATH=str(PACKAGE),
    PYTHONUNBUFFERED="1",
    OPENBLAS_NUM_THREADS="1",
    PYDANTIC_DISABLE_PLUGINS="1",
    DRIVER=hooks.interpreter(plan, workflow, "driver"),
    SERVE=hooks.interpreter(plan, workflow, "serve"),
    **hooks.shared_servers_variable(plan, workflow),
    **hooks.budget_variable(plan),
    **hooks.batch_variable(plan),
    **hooks.run_files_variable(workflow),
    **hooks.extensions_variable(),
    **hooks.one_writer_variable(workflow),
)
shell.prefix(f"set -euo pipefail; export {VARIABLES}; ")
