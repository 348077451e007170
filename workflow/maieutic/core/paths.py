"""Paths of all files under `results/` that Python code uses.

The rules that write these files contain the same paths as literals; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path

ROOT = "results"
# Root folder of the cards, prompts and demo data: the working directory if it contains them, else the checkout of this
# package. A run that imports the workflow from a repository has no copy of them in its working directory.
HOME = Path() if Path("resources/benchmarks").is_dir() else Path(__file__).resolve().parents[3]
RESOURCES = HOME / "resources"
DEMO_DATA = RESOURCES / "demo"


def here_or_shipped(path: str) -> str:
    """Return a relative path as it is if it exists in the working directory, else within HOME if it exists there."""
    shipped = HOME / path
    return str(shipped) if not Path(path).exists() and shipped.exists() else path


def shipped_name(path: Path) -> str:
    """Return the path of a shipped card, prompt or rubric as `resources/...`; return a path outside HOME unchanged."""
    return str(path.relative_to(HOME)) if path.is_relative_to(HOME) else str(path)


class Pattern(str):
    """Path with names in braces, which are the wildcards of the rule that writes the file."""

    __slots__ = ()

    def of(self, **names: str) -> str:
        """Return the path of one file, relative to the folder in which the run was started.

        names: values of the wildcards.
        """
        return self.format(**names)

    def partly(self, **names: str) -> Pattern:
        """Return the pattern with some of its wildcards filled in."""
        filled = str(self)
        for name, value in names.items():
            filled = filled.replace(f"{{{name}}}", value)
        return Pattern(filled)

    def within(self, results: Path, **names: str) -> Path:
        """Return the path of one file in a folder of results, which need not be named `results`."""
        return results / self.of(**names).removeprefix(f"{ROOT}/")


# datasets, weights
SOURCE = Pattern("results/datasets/{dataset}.source")
PICTURE_LIST = Pattern("results/datasets/{dataset}.pictures.jsonl")
PICTURE_STORE = Pattern("results/pictures")
WEIGHTS = Pattern("results/weights/{model}/manifest.json")

# items, labels, preferences
ITEMS = Pattern("results/items/{benchmark}/{task}.jsonl")
QUESTIONS = Pattern("results/questions/{benchmark}/{task}.jsonl")
LABELLED_ITEMS = Pattern("results/labels/{release}/items.jsonl")
LABELLED_REPLIES = Pattern("results/labels/{release}/replies.jsonl")
LABELS = Pattern("results/labels/{release}/labels.jsonl")
LABEL_ABOUT = Pattern("results/labels/{release}/about.json")
ANNOTATIONS = Pattern("results/labels/{release}/annotations.jsonl")
LABEL_STATISTICS = Pattern("results/labels/{release}/statistics.json")
PAIRS = Pattern("results/preferences/{source}/pairs.jsonl")
PAIR_COUNTS = Pattern("results/preferences/{source}/counts.json")
OVERLAP = Pattern("results/preferences/{source}/overlap/{benchmark}.json")

# replies
REPLIES = Pattern("results/replies/{benchmark}/{tutor}.jsonl")
PROMPTS = Pattern("results/replies/{benchmark}/prompts/{tutor}.jsonl")
SHARD_REPLIES = Pattern("results/replies/{benchmark}/shards/{shard}/{tutor}.jsonl")
SHARD_PROMPTS = Pattern("results/replies/{benchmark}/shards/{shard}/prompts/{tutor}.jsonl")
JOURNALS = Pattern("results/journal")  # each journal has a ledger beside it
REPLY_JOURNAL = Pattern("results/journal/replies/{benchmark}/{tutor}.jsonl")
SHARD_JOURNAL = Pattern("results/journal/replies/{benchmark}/shards/{shard}/{tutor}.jsonl")
SERVER_RECORD = Pattern("results/logs/servers.jsonl")  # one line for each server that has shut down

# rewards
TRAINED_WEIGHTS = Pattern("results/rewards/models/{reward_model}/manifest.json")
TRAINING = Pattern("results/rewards/models/{reward_model}/training.json")
MODEL_CARD = Pattern("results/rewards/models/{reward_model}/README.md")
PAIR_REWARDS = Pattern("results/rewards/pairs/{reward_model}.jsonl")
LEADING_JUDGE = Pattern("results/validation/leading_judge.json")
LEADING_REWARD_MODEL = Pattern("results/rewards/leading_reward_model.json")
PUBLISHED_SCORES = Pattern("results/rewards/published_scores/{reward_model}.json")
CLOSENESS = Pattern("results/rewards/closeness/{encoder}/{release}.jsonl")
REWARDS = Pattern("results/rewards/replies/{reward_model}/{benchmark}/{batch}.jsonl")
REWARD_JOURNAL = Pattern("results/journal/rewards/{reward_model}/{benchmark}/{batch}.jsonl")
CLASSIFIER_TRAINING = Pattern("results/rewards/criteria/{classifier}/training.json")

# verdicts
VERDICTS = Pattern("results/verdicts/{judge}/{benchmark}/{batch}.jsonl")
VERDICT_JOURNAL = Pattern("results/journal/grades/{judge}/{benchmark}/{batch}.jsonl")
LABELLED_VERDICTS = Pattern("results/verdicts/{judge}/labelled.jsonl")
PROBE_VERDICTS = Pattern("results/verdicts/{judge}/probes/{probe}.jsonl")
LABELLED_JOURNAL = Pattern("results/journal/grades/{judge}/labelled.jsonl")
TAGS = Pattern("results/verdicts/{tagger}/tags/{benchmark}.jsonl")
TAG_JOURNAL = Pattern("results/journal/tags/{tagger}/{benchmark}.jsonl")

# grades
READER_GRADES = Pattern("results/grades/{benchmark}/_readers/{reader}/{tutor}.jsonl")
READINGS = Pattern("results/readings/{reader}/{benchmark}/{tutor}.jsonl")
READER_JOURNAL = Pattern("results/journal/readings/{reader}/{benchmark}/{tutor}.jsonl")
PARSED = Pattern("results/grades/{benchmark}/_parsers/{tutor}.jsonl")
REWARD_GRADES = Pattern("results/grades/{benchmark}/{reward_model}/{tutor}.jsonl")
JUDGE_GRADES = Pattern("results/grades/{benchmark}/{judge}/{tutor}.jsonl")

# scores
SCORES = Pattern("results/scores/{benchmark}/{tutor}.json")
DIFFERENCES = Pattern("results/scores/differences/{benchmark}.json")
MEAN_BOUNDS = Pattern("results/scores/bounds/{benchmark}.jsonl")
BREAKDOWN = Pattern("results/scores/breakdowns/{benchmark}/{tutor}.json")
VOTES = Pattern("results/scores/tags/{benchmark}.json")
DIFFICULTY = Pattern("results/scores/difficulty/{benchmark}.csv")
LABEL_SCORES = Pattern("results/scores/labels/{release}.json")
SUBMISSION = Pattern("results/scores/predictions/{release}/{judge}/predictions.zip")

# validation
LABEL_VALIDATION = Pattern("results/validation/{grader}/labels.json")
PROBE_VALIDATION = Pattern("results/validation/{grader}/probes.json")
PAIR_VALIDATION = Pattern("results/validation/{grader}/pairs.json")
SET_VALIDATION = Pattern("results/validation/{grader}/preferences/{source}.json")
CORRECTED = Pattern("results/validation/{judge}/people.json")
CORRECTED_DIFFERENCES = Pattern("results/validation/{judge}/differences.json")
OWN_LABELS = Pattern("results/validation/labels.jsonl")
ALIGNMENT = Pattern("results/validation/{judge}/alignment.json")
RATERS = Pattern("results/validation/{judge}/raters/{benchmark}.json")

# the report, in the folder of its run: results/report, or results/runs/NAME for a named run
CONFIG = Pattern("results/{run}/config.yaml")
PROVENANCE = Pattern("results/{run}/provenance.json")
PAGE = Pattern("results/{run}/index.html")
RANKING = Pattern("results/{run}/ranking.json")
SCORE_TABLE = Pattern("results/{run}/scores.csv")
SCORE_PARQUET = Pattern("results/{run}/scores.parquet")
DIFFERENCE_TABLE = Pattern("results/{run}/differences.csv")
TRUST_TABLE = Pattern("results/{run}/trust.csv")
RUNTIME_TABLE = Pattern("results/{run}/runtime.csv")
TABLES = Pattern("results/{run}/tables")
FIGURES = Pattern("results/{run}/figures")
ITEM_DATA = Pattern("results/{run}/items")
PROBLEMS = Pattern("results/{run}/problems.json")
REPORT_CHECK = Pattern("results/{run}/whole.json")
KEPT = Pattern("results/{run}/kept")  # files of the shared results that the run's exports need
JUDGE_CHECK = Pattern("results/{run}/judges.json")
PARTIAL_REPORT = Pattern("results/{run}/partial")
PARTIAL_REPORT_LOG = Pattern("results/logs/build_report.partial.log")


def run_folder(name: str | None) -> str:
    """Return the folder of a run below results/. name: name of the run (`run.name`), None for a run without one."""
    return f"runs/{name}" if name else "report"


REPORT_FOLDERS = ("report", "runs/*")  # report folders of all runs
RUN_CONFIG = Pattern("results/.run.yaml")  # configuration of the current run, for the report if the run fails
RUN_PROVENANCE = Pattern("results/.provenance.json")
PREVIOUS_GRADES = Pattern("results/.previous_grades")  # grades before the current run grades them again
READER_CHANGES = Pattern("results/logs/reader_changes.csv")  # grades that moved because parsers changed
LOGS = Pattern("results/logs")  # a log for each job
PROGRESS = Pattern("results/progress")  # what the run's terminal and live page show, a file for each job
LIVE_STATE = Pattern("results/progress/run.json")
LIVE_PAGE = Pattern("results/live.html")
RUN_LOCK = Pattern("results/.run.lock")  # locked for the duration of a run, whichever checkout starts it
BATCHES = Pattern("results/journal/batches")  # batches at providers
RUN_SPENDING = Pattern("results/journal/.purse.jsonl")  # spending of the current run against its budget
