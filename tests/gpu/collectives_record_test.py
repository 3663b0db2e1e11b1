"""What the record of collective.in-kernel tells beside its times, on GPUs: bus bandwidth, the limits, and why NCCL has no rows. Ranks
may share a GPU."""

import json
import subprocess

import pytest

from gpus import gpu_count, nccl_can_be_loaded

LIMIT_S = 100
SIZE_BYTES = 1024


@pytest.fixture(scope="module")
def record(given, tmp_path_factory):
    if gpu_count() == 0:
        pytest.skip("there is no GPU on this machine")
    file = tmp_path_factory.mktemp("collectives") / "results.json"
    command = [*given.launcher(), given["program"], "bench", "collective.in-kernel", "-m", f"{SIZE_BYTES}:{SIZE_BYTES}", "-i", "3", "-x", "1",
               "--batch", "20", "--json", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(file.read_text(encoding="utf-8"))


def test_bus_bandwidth_is_that_of_the_collective_and_of_collectives_alone(record):
    ranks = record["ranks"]
    bus_bytes = {"allreduce": 2 * SIZE_BYTES * (ranks - 1) / ranks, "bcast": SIZE_BYTES,
                 **dict.fromkeys(("allgather", "reduce-scatter", "alltoall"), SIZE_BYTES * (ranks - 1))}
    seen = set()
    for row in record["rows"]:
        kind = row["subject"].removeprefix("launched-").removeprefix("graph-").removeprefix("nccl-")
        if kind in bus_bytes:
            assert row["bus_gb_per_s"] == pytest.approx(bus_bytes[kind] / 1000 / row["median"]), row["subject"]
            seen.add(kind)
        else:
            assert "bus_gb_per_s" not in row, row["subject"]
    assert seen == set(bus_bytes)


def test_the_limits_have_rows_of_their_own(record):
    assert {"graph-empty", "bare-packets"} <= {row["subject"] for row in record["rows"]}


def test_the_record_says_where_nccl_takes_no_part_because_ranks_share_a_gpu(record):
    gpus = [(place["node"], place["gpu"]) for place in record["binding"]]
    shared = len(set(gpus)) < len(gpus)
    if not nccl_can_be_loaded():
        pytest.skip("no NCCL can be loaded here")
    assert any(note.startswith("nccl is left out: it refuses ranks that share a GPU") for note in record["notes"]) == shared
    assert not (shared and any(row["subject"].startswith("nccl-") for row in record["rows"]))
