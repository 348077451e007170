"""What SLURM's own listings say of its partitions."""

from __future__ import annotations

import pytest
from maieutic.cluster import DEFAULT, Asked, check_job, gpus_of_partitions
from maieutic.errors import UserError

LISTED = """\
cpu* (null)
gpu gpu:1
gpu gpu:a100:4(S:0-1)
mixed gpu:a100:2(S:0),gpu:v100:2(S:1),lustre:1
shards shard:8,mps:100
"""


def test_gpus_of_partitions() -> None:
    assert gpus_of_partitions(LISTED) == {"cpu": 0, DEFAULT: 0, "gpu": 4, "mixed": 4, "shards": 0}
    assert gpus_of_partitions("") == {}


@pytest.mark.parametrize("job", [Asked("m", 0, None), Asked("m", 4, "gpu"), Asked("m", 3, "mixed")])
def test_what_can_be_had(job: Asked) -> None:
    check_job(job, gpus_of_partitions(LISTED))


REFUSED = [
    (Asked("m", 0, "gpus"), "slurm_partition: 'gpus' is not a partition of this cluster. Mend: did you mean 'gpu'?"),
    (Asked("m", 0, "$(id)"), r"slurm_partition: '\$\(id\)' is not a partition.*known: cpu, gpu, mixed, shards"),
    (
        Asked("m", 8, "gpu"),
        "models.m.needs.gpus: 8 needed on one node, the nodes of partition gpu have at most 4. Mend",
    ),
    (
        Asked("m", 1, None),
        "models.m.needs.gpus: 1 needed on one node, the nodes of the default partition have at most 0",
    ),
]


@pytest.mark.parametrize(("job", "expected"), REFUSED)
def test_what_cannot(job: Asked, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        check_job(job, gpus_of_partitions(LISTED))


def test_a_cluster_without_a_default_partition_decides_itself() -> None:
    check_job(Asked("m", 1, None), gpus_of_partitions("gpu gpu:4\n"))
