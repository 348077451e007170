"""What SLURM's own listings say of its partitions."""

from __future__ import annotations

import pytest
from maieutic.core.errors import UserError
from maieutic.plan import images
from maieutic.plan.cluster import Asked, Partition, check_job, check_status_command, minutes_of, partitions

LISTED = """\
cpu*|1-00:00:00|(null)
gpu|8:00:00|gpu:1
gpu|8:00:00|gpu:a100:4(S:0-1)
mixed|infinite|gpu:a100:2(S:0),gpu:v100:2(S:1),lustre:1
shards|30:00|shard:8,mps:100
2024|1:00:00|(null)
"""


def test_partitions() -> None:
    assert partitions(LISTED) == {
        "cpu": Partition(0, 1440),
        "gpu": Partition(4, 480),
        "mixed": Partition(4, None),
        "shards": Partition(0, 30),
        "2024": Partition(0, 60),
    }
    assert partitions("") == {}


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", None), ("n/a", None), ("UNLIMITED", None), ("30:00", 30), ("8:00:00", 480), ("2-12:30:00", 3630)],
)
def test_minutes(limit: str, minutes: int | None) -> None:
    assert minutes_of(limit) == minutes


@pytest.mark.parametrize(
    "job",
    [
        Asked("m", 8, 99999, None),
        Asked("m", 4, 480, "gpu"),
        Asked("m", 3, 99999, "mixed"),
        Asked("m", 4, 600, "gpu,mixed"),
        Asked("m", 1, 60, "gpu,hidden"),
        Asked("m", 0, 60, "2024"),
    ],
)
def test_what_can_be_had(job: Asked) -> None:
    check_job(job, partitions(LISTED))


REFUSED = [
    (Asked("m", 0, 1, "gpus"), "slurm_partition: 'gpus' is not a partition of this cluster. Fix: did you mean 'gpu'?"),
    (
        Asked("m", 0, 1, "$(id)"),
        r"slurm_partition: '\$\(id\)' is not a partition.*known: 2024, cpu, gpu, mixed, shards",
    ),
    (
        Asked("m", 8, 1, "gpu"),
        "models.m.needs.gpus: 8 needed on one node, the nodes of partition gpu have at most 4. Fix",
    ),
    (
        Asked("m", 1, 720, "gpu"),
        "models.m.needs.runtime: 720 minutes, partition gpu ends jobs after 480. Fix: lower it",
    ),
]


@pytest.mark.parametrize(("job", "expected"), REFUSED)
def test_what_cannot(job: Asked, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        check_job(job, partitions(LISTED))


CONFIG = "AccountingStorageType   = {}\nMinJobAge               = {} sec\nAccountingStorageTRES   = cpu\n"


@pytest.mark.parametrize(
    ("command", "storage", "age", "expected"),
    [
        ("sacct", "accounting_storage/none", 300, "keeps no accounting database"),
        ("sacct", "(null)", 300, "keeps no accounting database"),
        ("squeue", "accounting_storage/slurmdbd", 60, "forgets a job 60 s after its end"),
        ("sacct", "accounting_storage/slurmdbd", 2, None),
        ("squeue", "(null)", 300, None),
    ],
)
def test_a_way_of_looking_that_would_wait_for_ever(command: str, storage: str, age: int, expected: str | None) -> None:
    config = CONFIG.format(storage, age)
    if expected is None:
        check_status_command(command, config)
    else:
        with pytest.raises(UserError, match=expected):
            check_status_command(command, config)


def test_the_locks_of_this_checkout_are_found() -> None:
    """By the script that makes the environments, wherever the package lies in the checkout."""
    assert all(len(one) == 16 for stack in ("driver", "serve") for one in images.locks_of(stack))
    assert images.locks_of("driver")
