"""Checks what bench/gpu_measure.py --from tells of result files: of a few made here, and of those of a documented page.

    gpu_measure_check.py SOURCES
"""
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path(sys.argv[1])
KIB = 1024
failures = []


def tables_of(folder):
    result = subprocess.run([sys.executable, SOURCES / "bench/gpu_measure.py", "--from", folder], capture_output=True,
                            text=True, encoding="utf-8", env={"PYTHONIOENCODING": "utf-8"})
    expect(result.returncode == 0, f"--from {folder} ends with 0: {result.stderr}")
    return result.stdout


def expect(condition, what):
    if not condition:
        failures.append(what)


def line_with(text, *parts):
    """The one line that has all parts; empty if there is none."""
    return next((line for line in text.splitlines() if all(part in line for part in parts)), "")


def row(size, subject, median, **more):
    return {"bytes": size, "subject": subject, "median": median, "mean": median, "partitions": 1, "metric": 1,
            "gpu_copy": "kernel", **more}


def write(folder, name, rows):
    (folder / f"{name}.json").write_text(json.dumps({"revision": "abc", "rows": rows}))


def check_made(folder):
    write(folder, "latency", [row(size, subject, median) for subject, medians in
                              {"host-block": (2.5, 2.25), "nvshmem": (2.0, 2.1)}.items()
                              for size, median in zip((8, 16), medians)] + [row(4 * KIB, "host-block", 9)])
    write(folder, "table1", [row(8, "precv_init", 5.5, mean=4.5), row(8, "psend_init", 4.5, mean=5.5)])
    write(folder, "progress", [row(8000, subject, median, partitions=count) for count in (1, 100)
                               for subject, median in (("asleep-idle", 900), ("asleep-bare", 800))])
    write(folder, "fig4", [row(size, subject, median) for subject, medians in
                           {"traditional": (1, 2, 4), "kernel": (1.5, 2, 6), "nccl": (1, 1, 5)}.items()
                           for size, median in zip((8 * KIB, 16 * KIB, 32 * KIB), medians)])
    text = tables_of(folder)
    expect("missed" in line_with(text, "Precv_init (us)", "5.50"), "a goal of table 1 is judged by the median")
    expect("reached" in line_with(text, "Psend_init (us)", "4.50"), "and not by the mean")
    expect("0.01" in line_with(text, "requests idle, over none (%)"), "what idle requests take is a percentage")
    expect(line_with(text, "one-block partition").endswith("| 2.25 to 2.50 µs | 2.00 to 2.10 µs | - |"),
           "a cell holds the least and the largest median of its sizes, the peers beside it")
    goodput = line_with(text, "goodput over traditional, kernel copy")
    expect(goodput.endswith("| 1.50 / 1.00 / 1.50 × | - | 1.00 / 0.50 / 1.25 × |"),
           "goodput over traditional is told at the ends and where it is worst")
    expect("| 2 | 2.00 | 1.00 | 0.50 |" in text, "every grid has its ratios")
    expect("revision abc: `fig4`" in text, "the files' revision is told")


def check_documented():
    text = tables_of(SOURCES / "docs/measurements/h200-2-gpus")
    for measure in ("device-driven packets", "with counter", "kernel copy inside a kernel", "default `MPIX_Pready`",
                    "forced to `ucx`", "Psend_init · Precv_init", "none active", "mode kernel, smallest plate"):
        cells = [cell.strip() for cell in line_with(text, measure, "|").split("|")]
        expect(len(cells) == 6 and cells[2] not in ("", "-"), f"the page has a figure of: {measure}")


with tempfile.TemporaryDirectory() as place:
    check_made(pathlib.Path(place))
check_documented()
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
