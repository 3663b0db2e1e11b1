"""Checks the figures that are quoted most against the result files: each sentence below is made from the files and must stand
in the page as it is.

    measurements_check.py SOURCES
"""
import json
import pathlib
import sys

SOURCES = pathlib.Path(sys.argv[1])
MEASUREMENTS = SOURCES / "docs/measurements"
KIB = 1024
MIB = 1024 * KIB
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCES / "bench"))
import gpu_measure  # noqa: E402
import gpu_page  # noqa: E402

failures = []


def results(file):
    return json.loads((MEASUREMENTS / file).read_text(encoding="utf-8"))


def rows(file):
    return results(file)["rows"]


def expect_text(file, sentence):
    if sentence not in " ".join((SOURCES / file).read_text(encoding="utf-8").split()):
        failures.append(f"{file} does not say \"{sentence}\", which the result files do")


def ratios(files, subject, reference, at=lambda size: True):
    """Of the medians, at every size and partition count that `at` takes, in all files."""
    found = []
    for file in files:
        medians = {(row["bytes"], row["partitions"], row["subject"]): row["median"] for row in rows(file)}
        found += [median / medians[size, partitions, reference] for (size, partitions, name), median in medians.items()
                  if name == subject and at(size)]
    return found


def span(values, digits=2):
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def check_goodput():
    """One block, sizes above, and the engine below, at and above the size from which it pays."""
    jobs = [f"h200-2-gpus/{job}.json" for job in ("fig4", "fig4-open-mpi", "transport-sweep-before")]
    kernel = [ratios(jobs, "kernel", "traditional", at) for at in (lambda size: size <= 8 * KIB, lambda size: size > 8 * KIB)]
    engine = [ratios(jobs, "engine", "traditional", at) for at in
              (lambda size: size <= 16 * MIB, lambda size: size == 32 * MIB, lambda size: size > 32 * MIB)]
    expect_text("docs/guide/gpu.md", f"| {span(kernel[0])} at 8 KiB, {span(kernel[1])} from 16 KiB to 256 MiB |")
    expect_text("docs/guide/gpu.md", f"| {span(engine[0])} to 16 MiB, {span(engine[1])} at 32 MiB, {span(engine[2])} from 64 MiB on |")
    ucx = [ratios(["h200-2-gpus/fig5.json"], "engine:ucx", "traditional:ucx", at) for at in
           (lambda size: size <= MIB, lambda size: size > MIB)]
    mpi = ratios(["h200-2-gpus/fig5.json"], "engine:mpi", "traditional:mpi")
    expect_text("docs/guide/gpu.md", f"`ucx`: {span(ucx[0])} to 1 MiB, {span(ucx[1])} above; `mpi`: {span(mpi)} |")


def check_jacobi():
    def over(mode, *sides):
        apps = [results(f"h200-2-gpus/jacobi-{side}.json") for side in sides]
        return [gpu_page.speed_up(app, mode) / gpu_page.speed_up(app, "traditional-device") for app in apps]
    near, far = (64, 256, 1024, 2048), 8192
    expect_text("docs/guide/gpu.md", f"{span(over('kernel', *near, 4096))} with 64 to 4,096 cells a side, {over('kernel', far)[0]:.2f} with")
    expect_text("docs/guide/gpu.md", "{:.2f} with 64 cells a side, {:.2f} with 1,024, {:.2f} with 4,096, {:.2f} with 8,192"
                .format(*over("engine", 64, 1024, 4096, far)))
    expect_text("docs/guide/gpu.md", "{} with 64 to 2,048 cells a side, {:.2f} with 4,096, {:.2f} with 8,192"
                .format(span(over("persistent-kernel", *near)), *over("persistent-kernel", 4096, far)))


def check_verdicts():
    """What the judging program finds missed, the page does not call reached, and the other way round."""
    page = (MEASUREMENTS / "h200-2-gpus/README.md").read_text(encoding="utf-8").splitlines()
    said = {"device-driven packets": 0, "plain stores and flag": 1, "one-block partition": 2, "with counter": 3}
    goals = [goal for goal in gpu_measure.GOALS if goal.run == "latency"]
    for measure, number in said.items():
        verdict = gpu_measure.verdict(goals[number], goals[number].find(rows("h200-2-gpus/latency.json")))
        line = next(line for line in page if measure in line)
        if not line.rstrip(" |").split("| ")[-1].startswith(verdict):
            failures.append(f"h200-2-gpus/README.md: {measure} is {verdict}: {line}")


def check_host():
    file = "docs/measurements/README.md"
    for link, subject in (("auto", "partita-c"), ("mpi", "partita-c:mpi")):
        native, mpipcl = (ratios(["mpich-64-cores/latency.json"], peer, subject) for peer in ("native", "mpipcl"))
        ends = f"{min(mpipcl):.2g} to {max(mpipcl):.2g} times"
        expect_text(file, f"{span(native, 1)} times as long as {'Partita ' if link == 'auto' else ''}on link `{link}`")
        expect_text(file, f"{ends} as long as on link `{link}`")
    late = [ratio for delay in ("uniform", "gaussian", "single") for ratio in
            ratios([f"mpich-64-cores/perceived-bandwidth-{delay}.json"], "partita-c", "persistent", lambda size: size >= 2 * MIB)]
    expect_text(file, f"{min(late):.1f} times and more from 2 MiB on")
    moved = {row["bytes"]: row["bytes"] / row["median"] / 1e3 for row in rows("h200-2-gpus/fig5.json") if row["subject"] == "engine:ucx"}
    expect_text("CHANGELOG.md", f"1 MiB over `ucx` takes {moved[MIB]:.1f} us, 256 MiB {moved[256 * MIB] / 1e3:.2f} ms.")


def check_small_costs():
    found = results("mpich-2-cores/small-costs.json")
    calls = {call: {alive: found["instructions_per_call"][f"{call}, {alive}"] for alive in ("none of ours", "requests of ours alive")}
             for call in ("test", "wait")}
    none, some = ([counts[alive] for counts in calls.values()] for alive in ("none of ours", "requests of ours alive"))
    assert none[0] == none[1]
    expect_text("docs/design/dropin.md", f"has {none[0]:.0f} instructions while none is alive, and {some[0]:.0f} and {some[1]:.0f} else")
    us = {size: nanoseconds / 1e3 for size, nanoseconds in found["remote_copy_ns"].items()}
    expect_text("docs/design/link.md", f"{us['look']:.2f} us of the {us['64']:.1f} us that 64 B take, of {us['16384']:.1f} us at 16 KiB and "
                f"{us['1048576']:.0f} us at 1 MiB")


for check in (check_goodput, check_jacobi, check_verdicts, check_host, check_small_costs):
    check()
print("\n".join(failures) or "the pages say what the files say")
sys.exit(1 if failures else 0)
