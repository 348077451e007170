"""The plan of the checked configuration, and how a rule says what it needs."""

import shlex
import subprocess
import sys
from pathlib import Path


def package_folder(rules):
    """The folder of the package, beside these rules; of rules that Snakemake reads from a repository it is unpacked."""
    if not hasattr(rules, "ref"):
        return Path(str(rules.get_path_or_uri(secret_free=True))).parent
    repository = rules.repo_path if hasattr(rules, "repo_path") else rules.hosted_repo.repo_clone
    git = ["git", "-C", str(repository)]
    commit = subprocess.check_output([*git, "rev-parse", f"{rules.ref}^{{commit}}"], text=True)
    home = Path(".snakemake/maieutic", commit.strip()).absolute()
    if not (home / ".complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        packed = subprocess.check_output([*git, "archive", commit.strip()])
        subprocess.run(["tar", "-x", "-C", str(home)], input=packed, check=True)
        (home / ".complete").touch()
    return home / "workflow"


PACKAGE = package_folder(workflow.current_basedir)
sys.path.insert(0, str(PACKAGE))

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.plan import lines, start
from maieutic.plan.inputs import PAIRS, downloads, last_checks
from maieutic.plan.patterns import one_of, patterns
from maieutic.plan.rules import plan_of

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
shell.prefix(
    "set -euo pipefail; "
    f"export PYTHONPATH={shlex.quote(str(PACKAGE))} PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1"
    f" DRIVER={shlex.quote(start.interpreter(plan, workflow, 'driver'))}"
    f" SERVE={shlex.quote(start.interpreter(plan, workflow, 'serve'))}"
    f" {start.shared_servers(plan, workflow)}; "
)
