"""Locate the package that belongs to these rules, and then check the configuration files."""

import subprocess
import sys
from pathlib import Path

import snakemake

if int(snakemake.__version__.split(".")[0]) >= 10:
    problem = f"expected Snakemake 9.27 or later, below 10, found {snakemake.__version__}"
    raise WorkflowError(f'{problem}. Fix: run `pip install "snakemake>=9.27,<10"`')


def package_folder(rules):
    """Return the folder of the package, which is unpacked first if Snakemake reads the rules from a repository."""
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

from maieutic.core.parent_process import NEW_OBJECTS_OF_A_PLAN, collect_garbage_rarely

collect_garbage_rarely(NEW_OBJECTS_OF_A_PLAN)  # before the other imports, which make many objects

from maieutic.core.errors import UserError
from maieutic.core.extensions import activate_extensions, extension_named, is_recorded
from maieutic.launch.config_files import add_registries, check_config_files
from maieutic.launch.snakemake_compat import read_config_files

# Extensions are active before any module of the plan is imported, which reads the tables of their code. A recorded
# configuration activates none by itself: only those that the environment variable names as well stay active.
named = config.get("extensions") if isinstance(config.get("extensions"), list) else []
recorded = any(is_recorded(file) for file in read_config_files(workflow))
activate_extensions(filter(None, map(extension_named, named)) if recorded else named)

try:
    check_config_files(workflow)
    add_registries(config)
except UserError as error:
    raise WorkflowError(error.lines) from None
