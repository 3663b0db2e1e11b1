"""Reads result files: JSON of `partita bench`, of the apps jacobi2d, life and fft, and the CSV of summary.py."""
import dataclasses
import json
import os
import pathlib
import re
import statistics

from partita_report import intervals
from partita_report.failure import Failure
from partita_report.summary import figure_of, from_csv, meta_text, to_csv

GRID_APPS = ("jacobi2d", "life")  # times of runs over cells a side
APPS = (*GRID_APPS, "fft")
STAGED = "-staged"  # behind an exchange of fft: its yardstick
YARDSTICKS = ("traditional-device", "traditional", "nonblocking")  # the first that a record has


@dataclasses.dataclass
class Row:
    """One subject in one case of one job. Without samples, as in files that keep none, the median stands for them."""
    subject: str
    reference: str
    samples: list
    case: str = ""
    size: int = 0
    partitions: int = 0
    link: str = ""
    gpu_copy: str = ""
    transport_partitions: int = 0
    batch: int = 1
    halo_share: float = None
    ranks: int = 0

    def __post_init__(self):
        self.median = statistics.median(self.samples)
        self.interval = intervals.median_interval(self.samples)
        self.known = (self.median, *self.interval)
        self.spread_percent = intervals.spread_percent(self.samples)

    @property
    def place(self):
        return self.case, self.size, self.partitions


@dataclasses.dataclass
class Job:
    source: str
    meta: dict
    rows: list


def read_figures(files, *, as_jobs=False, as_cases=False):
    """The figures of the files: one each, or a single one of which the files are jobs or cases."""
    contents = [(pathlib.Path(file), read(pathlib.Path(file))) for file in files]
    if not (as_jobs or as_cases):
        return [found if not isinstance(found, list) else figure_of(file.stem, found) for file, found in contents]
    shared = len(os.path.commonprefix([file.stem for file, _ in contents])) if len(contents) > 1 else 0
    jobs = []
    for file, found in contents:
        if not isinstance(found, list):
            raise Failure(f"{file} is a summary; jobs and cases are put together from JSON files with their samples")
        for job in found:
            for row in job.rows if as_cases else ():
                row.case = file.stem[shared:] or file.stem
        jobs += found
    return [figure_of(contents[0][0].stem, jobs)]


def read(file):
    """A list of Job, or of a CSV file a Figure."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if file.suffix == ".csv":
        return from_csv(file.stem, text, file)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Failure(f"{file} is not JSON: {error}") from None
    try:
        jobs = [job for each in jobs_in(found) for job in read_job(str(file), each)]
    except (KeyError, TypeError, AttributeError, IndexError, statistics.StatisticsError) as error:
        raise Failure(f"{file} is not what partita bench --json writes: {type(error).__name__} {error}") from None
    if not jobs or not all(job.rows for job in jobs):
        raise Failure(f"{file} has no rows")
    return jobs


def jobs_in(found):
    """The records of a file, each of one job: the file itself, its elements, or those of its "jobs" with what they share."""
    if isinstance(found, list):
        return found
    if "jobs" in found:
        shared = {key: value for key, value in found.items() if key != "jobs"}
        return [{**shared, **job} for job in found["jobs"]]
    return [found]


def read_job(source, found):
    if "app" in found:
        if found["app"] not in APPS:
            raise Failure(f"{source} is of the app {found['app']}; expected are benchmarks or one of {', '.join(APPS)}")
        return [(app_job if found["app"] in GRID_APPS else fft_job)(source, found)]
    rows = {}
    for row in found["rows"]:
        rows.setdefault(row.get("job", 0), []).append(bench_row(row))
    meta = bench_meta(found)
    return [Job(source, meta, own) for own in rows.values()]


def bench_row(row):
    return Row(row["subject"], row["reference"], row.get("samples") or [row["median"]], size=row["bytes"],
               partitions=row["partitions"], link=row.get("link", ""), gpu_copy=row.get("gpu_copy", ""),
               transport_partitions=row.get("transport_partitions", 0), batch=row.get("batch", 1))


def bench_meta(found):
    machine = found.get("machine", {})
    meta = {"benchmark": found["benchmark"], "unit": found["unit"]}
    if machine.get("gpus"):
        meta["gpus"] = f"{machine['gpus']} x {machine['gpu']}"
    meta |= {key: meta_text(machine[key]) for key in ("cpu", "cores", "mpi", "thread_level") if key in machine}
    meta |= {"ranks": meta_text(found["ranks"])} if "ranks" in found else {}
    meta |= origin(found)
    if "options" in found:  # jobs differ in their seeds alone
        options = dict(found["options"])
        meta |= {"seed": meta_text(options.pop("seed"))} if "seed" in options else {}
        meta["options"] = meta_text(options)
    if found.get("notes"):
        meta["notes"] = " ".join(found["notes"])
    return {key: " ".join(value.split()) for key, value in meta.items()}


def origin(found):
    """When, of which sources, with which command, on which versions, at which clocks and on which cores a record was made: what it tells
    of these. The command is without its file, and its seed is SEED: jobs do not differ by it."""
    told = {key: found[key] for key in ("date", "revision") if key in found}
    if "order_seed" in found:
        told["seed"] = found["order_seed"]
    if "command" in found:
        seed = found.get("options", {}).get("seed", found.get("order_seed"))
        option, file = (("--order-seed", r" --json| --output[ =]('[^']*'|\S+)") if "app" in found else ("--seed", r" --json \S+"))
        seeded = re.sub(rf"( {option}) {seed}(?= |$)", r"\1 SEED", found["command"])
        told["command"] = re.sub(file, "", seeded)
    told |= {key: value for key, value in found.get("versions", {}).items() if key != "mpi"}  # which stands with the machine
    told |= found.get("clocks", {})
    if found.get("binding"):
        told["binding"] = "; ".join(map(place_of, found["binding"]))
    return {key: meta_text(value) for key, value in told.items()}


def place_of(rank):
    gpu = f", GPU {rank['gpu']}" if rank.get("gpu") else ""
    return f"rank {rank['rank']} on node {rank['node']}, cores {rank['cores']}{gpu}"


def halo_share(run):
    """What the halo is of a run; None where it does not tell."""
    return run["halo_median_s"] / run["time_s"] if "halo_median_s" in run else run.get("halo_share")


def app_job(source, found):
    """The job of an app on a grid."""
    job, runs = found["job"], found["runs"]
    reference = next((mode for mode in YARDSTICKS if mode in runs), "")
    meta = {"benchmark": found["app"], "unit": "s", "size": "cells a side", "mpi": job["mpi"], "ranks": meta_text(job["ranks"])}
    meta |= {key: meta_text(job[key]) for key in ("threads_per_rank", "rank_grid", "gpus") if key in job}
    rows = [Row(mode, reference, [run["time_s"] for run in each], size=job["cells"][0],
                halo_share=None if halo_share(each[0]) is None else statistics.median(map(halo_share, each)))
            for mode, each in runs.items()]
    return with_origin(source, meta, found, rows)


def with_origin(source, meta, found, rows):
    return Job(source, {key: " ".join(value.split()) for key, value in (meta | origin(found)).items()}, rows)


def fft_job(source, found):
    """The job of transforms of a cube: of each exchange the time of one there and back, and of it that in the exchange."""
    job, problem, runs = found["job"], found["problem"], found["runs"]
    if len(set(problem["size"])) != 1:
        raise Failure(f"{source} is of {' x '.join(map(str, problem['size']))} cells; figures of fft are of cubes")
    meta = {"benchmark": "fft", "unit": "ms", "size": "cells a side", "mpi": job["mpi"], "ranks": meta_text(job["ranks"]),
            "device": job["device"]} | {key: meta_text(problem[key]) for key in ("decomposition", "slices", "iterations")}
    if found.get("notes"):  # which staged twins cannot differ
        meta["notes"] = " ".join(found["notes"])
    rows = []
    for exchange, each in runs.items():
        staged = f"{exchange.removesuffix(STAGED)}{STAGED}"
        yardstick = staged if staged in runs else next(iter(runs))
        for part, share in (("", lambda run: 1), (":exchange", lambda run: run["exchange_share"])):
            rows.append(Row(exchange + part, yardstick + part, [1000 * run["iteration_s"] * share(run) for run in each], size=problem["size"][0]))
    return with_origin(source, meta, found, rows)
