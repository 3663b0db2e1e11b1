"""The figures of a page on GPU requests (docs/measurements/h200-2-gpus/README.md) as markdown, from the result files in its
folder, so that nobody types a number. bench/gpu_measure.py prints them.

Medians throughout; "a to b" are the least and the largest median of the sizes or grids that the row names.
"""

import json
import statistics

KIB = 1024
MIB = 1024 * 1024
BLOCK_BYTES = 8 * KIB  # of a grid of partitioned.fig4
NONE = "-"


# ---- Cells ------------------------------------------------------------------------------------------------------------


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def cell(values, unit, between=" / "):
    """The values one after the other; "-" for one that was not measured."""
    shown = [NONE if value is None else number(value) for value in values]
    return f"{between.join(shown)} {unit}" if set(shown) - {NONE} else NONE


def span(values, unit):
    """From the least to the largest."""
    ends = [number(min(values)), number(max(values))] if values else []
    return f"{' to '.join(dict.fromkeys(ends))} {unit}" if ends else NONE


def table(heading, rows):
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ---- What the files hold ----------------------------------------------------------------------------------------------


def by_size(rows, subject, at=lambda size: True):
    """Medians of a subject by bytes, ascending."""
    return dict(sorted((row["bytes"], row["median"]) for row in rows if row["subject"] == subject and at(row["bytes"])))


def medians(rows, subject, at=lambda size: True):
    return list(by_size(rows, subject, at).values())


def best(rows, prefix, size):
    """Of the grids of one size the best one."""
    return max((row["median"] for row in rows if row["subject"].startswith(prefix) and row["bytes"] == size), default=None)


def ratios(rows, subject, reference):
    """At every size that has both, ascending: how many times the reference's median."""
    theirs = by_size(rows, reference)
    return [median / theirs[size] for size, median in by_size(rows, subject).items() if size in theirs]


def median_of_runs(app, mode, figure):
    """Of a jacobi2d record; None where the mode has no such figure."""
    values = [run[figure] for run in app["runs"].get(mode, []) if figure in run]
    return statistics.median(values) if values else None


def speed_up(app, mode):
    time_s = median_of_runs(app, mode, "time_s")
    return time_s and median_of_runs(app, "traditional", "time_s") / time_s


# ---- Rows of the first table: measure, measured, NVSHMEM, NCCL ----------------------------------------------------------


def latency_rows(rows):
    measures = {"device-packets": "ready → arrived, one way, device-driven packets, 8 B to 1 KiB",
                "device-plain": "the same, plain stores and flag, to 1 KiB",
                "host-block": "the same, host-driven, one-block partition", "host-counter": "the same, with counter"}
    for subject, measure in measures.items():
        yield measure, *(span(medians(rows, each, lambda size: size <= KIB), "µs") for each in (subject, "nvshmem", "nccl"))


def bandwidth_rows(rows):
    sizes = (MIB, 16 * MIB, 256 * MIB)
    yield ("kernel copy inside a kernel, 1 MiB / 16 MiB / 256 MiB",
           *(cell([best(rows, prefix, size) for size in sizes], "GB/s") for prefix in ("put-", "nvshmem-", "nccl")))


def goodput_rows(rows):
    for subject, what in (("kernel", "kernel copy"), ("engine", "engine")):
        yield (f"goodput over traditional, {what}, one block / the worst other grid / the largest grid",
               *(cell(ends_and_worst(ratios(rows, each, "traditional")), "×") for each in (subject, "nvshmem", "nccl")))
    yield ("kernel copy over NVSHMEM's goodput and NCCL's at the same grid", "",
           *(span(ratios(rows, "kernel", each), "×") for each in ("nvshmem", "nccl")))


def ends_and_worst(values):
    return [values[0], min(values[1:]), values[-1]] if len(values) > 1 else []


def gpu_aware_rows(rows):
    for subject, what in (("kernel", "kernel copy"), ("engine", "engine")):
        yield (f"goodput over `MPI_Send` of a GPU-aware MPI, {what}, in the same order",
               cell(ends_and_worst(ratios(rows, subject, "gpu-aware-mpi")), "×"), "", "")


def marking_rows(rows):
    last = [ratios(rows, f"{way}-default", f"{way}-block")[-1:] for way in ("kernel", "engine")]
    yield "default `MPIX_Pready` by 1,024 threads over `_block`, kernel copy / engine", cell(sum(last, []), "×"), "", ""


def between_nodes_rows(rows):
    for link in ("ucx", "mpi"):
        over = ratios(rows, f"engine:{link}", f"traditional:{link}")
        best_of_it = f" (at best {number(max(over))} ×)" if over else ""
        yield (f"goodput over traditional, link forced to `{link}`, engine, one block / the worst other grid",
               f"{cell(ends_and_worst(over)[:2], '×')}{best_of_it}; {span(medians(rows, f'engine:{link}'), 'GB/s')}", "", "")


def call_rows(rows):
    def each(*subjects):
        return cell([next(iter(medians(rows, subject)), None) for subject in subjects], "µs", " · ")
    yield ("Psend_init · Precv_init · Prequest_create · of a receive · Prequest_free",
           each("psend_init", "precv_init", "prequest_create", "prequest_create recv", "prequest_free"), "", "")
    yield ("Pbuf_prepare first · later · in a kernel",
           each("pbuf_prepare first", "pbuf_prepare later", "pbuf_prepare kernel"), "", "")
    yield "Start · Wait, on the host; NCCL's send into a stream", each("start", "wait"), "", each("nccl send")
    yield "Pready_block in a kernel; NVSHMEM's put and signal", each("pready_block kernel"), each("nvshmem put+signal"), ""


def progress_rows(rows):
    def percent(figure):
        return span([median / 1e4 for median in all_medians(rows, figure)], "%")
    yield ("1,000 requests open: CPU of a sleeping process, none active; without them",
           f"{percent('asleep-idle')}; {percent('asleep-bare')}", "", "")
    yield ("the same, one epoch of 1 to 1,000 transport partitions open, by kernels; by the engine",
           f"{percent('asleep-kernel')}; {percent('asleep-engine')}", "", "")
    yield ("a step: no request; none active; by kernels; by the engine",
           "; ".join(span(all_medians(rows, f"step-{each}"), "µs") for each in ("bare", "idle", "kernel", "engine")), "", "")


def all_medians(rows, subject):
    """Of every count of partitions, where the size is one."""
    return [row["median"] for row in rows if row["subject"] == subject]


def jacobi_rows(apps):
    for mode in ("kernel", "persistent-kernel"):
        yield (f"Jacobi over traditional, mode {mode}, smallest plate / slowest of all", smallest_and_least(apps, mode), "",
               smallest_and_least(apps, "nccl"))


def smallest_and_least(apps, mode):
    speed_ups = [speed_up(app, mode) for app in apps]
    return cell([speed_ups[0], min(speed_ups)], "×") if speed_ups and None not in speed_ups else NONE


def side_of(app):
    return app["job"]["cells"][0]


ROWS = {"latency": latency_rows, "bandwidth": bandwidth_rows, "fig4": goodput_rows, "fig4-open-mpi": gpu_aware_rows,
        "fig3": marking_rows, "fig5": between_nodes_rows, "table1": call_rows, "progress": progress_rows}


# ---- The other tables -------------------------------------------------------------------------------------------------


def grid_table(rows):
    """Goodput of fig4 over traditional, a row a grid."""
    subjects = [each for each in dict.fromkeys(row["subject"] for row in rows) if each != "traditional"]
    base = by_size(rows, "traditional")
    columns = {subject: by_size(rows, subject) for subject in subjects}
    lines = [[f"{size // BLOCK_BYTES:,}", number(median),
              *(number(column[size] / median) if size in column else NONE for column in columns.values())]
             for size, median in base.items()]
    return table(["blocks", "traditional, GB/s", *subjects], lines)


def jacobi_table(apps):
    """Speed-up over traditional by the side of the plate."""
    modes = [mode for mode in apps[0]["runs"] if mode != "traditional"]
    lines = []
    for app in apps:
        share = median_of_runs(app, "traditional", "halo_share")
        lines.append([str(side_of(app)), *(cell([speed_up(app, mode)], "×") for mode in modes),
                      NONE if share is None else f"{share * 100:.0f} %"])
    return table(["N", *modes, "halo's share of a traditional step"], lines)


def revisions(files):
    """Of which sources each file is; those from before files told so are of none."""
    named = {}
    for name, results in files.items():
        named.setdefault(results.get("revision", "not told"), []).append(f"`{name}`")
    return "".join(f"- revision {revision}: {', '.join(names)}\n" for revision, names in named.items())


def page(folder):
    """All tables that the files of the folder give; empty where it has none."""
    files = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    found = {name: results["rows"] for name, results in files.items() if "rows" in results}
    lines = [line for name, rows_of in ROWS.items() if name in found for line in rows_of(found[name])]
    apps = sorted((results for results in files.values() if results.get("app") == "jacobi2d"), key=side_of)
    lines += jacobi_rows(apps) if apps else []
    parts = [revisions(files)] if files else []
    if lines:
        parts.append(table(["measure", "measured", "NVSHMEM", "NCCL"], lines))
    if "fig4" in found:
        parts.append(f"`fig4`, goodput over traditional:\n\n{grid_table(found['fig4'])}")
    if apps:
        parts.append(f"Jacobi, speed-up over traditional:\n\n{jacobi_table(apps)}")
    return "\n".join(parts)
