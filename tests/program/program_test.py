"""The program partita from outside: exit codes, where errors go, and what info tells. The cases on GPUs are about what info
tells of GPU memory, which must be there."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

import pytest

from gpus import gpu_count

LIMIT_S = 60
STARTS_AT_ONCE = 4
on_gpus = pytest.mark.skipif(gpu_count() == 0, reason="needs a GPU, this machine has none")
WRONG_COMMANDS = [[], ["frobnicate"], ["run"], ["run", "frobnicate"], ["info", "--frobnicate"], ["info", "leftover"],
                  ["run", "jacobi2d", "--frobnicate"], ["run", "jacobi2d", "--mode", "kernel"],
                  ["run", "jacobi2d", "--device", "gpu", "--mode", "nonblocking"], ["run", "jacobi2d", "--reference", "gpu"],
                  ["run", "jacobi2d", "--multiplier", "2"], ["run", "life", "--mode", "nonblocking"],
                  ["run", "life", "--device", "gpu"], ["run", "bce", "--mode", "ring"],
                  ["run", "bce", "--mode", "resident"], ["run", "bce", "--nccl", "x"], ["run", "cg", "--mode", "graph"],
                  ["run", "cg", "--sums", "engine"], ["run", "fft", "--exchange", "ring"], ["run", "fft", "--cufft", "x"]]
# The words before a command that lay a control group around it which gives all its processes the time of one core.
ONE_CORE = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/fs/cgroup && "
            'echo 100000 100000 > /sys/fs/cgroup/cpu.max && exec "$@"', "one core"]


@pytest.fixture(scope="module")
def ranks(given):
    return int(given["ranks"])


@pytest.fixture(scope="module")
def run(given):
    """Runs the program with these arguments, in an environment with these variables; the launcher follows the words `before`."""
    def started(*arguments, before=(), **environment):
        return subprocess.run([*before, *given.launcher(), given["program"], *arguments], capture_output=True, text=True,
                              timeout=LIMIT_S, env={**os.environ, **environment})
    return started


# ---- Help, version and wrong commands ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown_help(run):
    return run("--help")


def test_host_help_lists_the_commands_once(shown_help):
    assert shown_help.returncode == 0, shown_help
    for name in ("run", "info"):
        assert f"\n  {name} " in shown_help.stdout
    assert shown_help.stdout.count("Usage:") == 1, "--help is printed by one rank"


def test_host_help_of_run_lists_the_apps(run):
    apps = run("run", "--help")
    assert apps.returncode == 0, apps
    for name in ("bce", "cg", "fft", "jacobi2d", "life"):
        assert f"\n  {name} " in apps.stdout, apps


def test_host_help_of_a_benchmark_goes_on_to_json(run, shown_help):
    if "\n  bench " not in shown_help.stdout:
        pytest.skip("this build has no benchmarks")
    latency = run("bench", "latency", "--help")
    assert latency.returncode == 0 and "--json" in latency.stdout, latency


@pytest.mark.parametrize("name", ["partitioned.fig4", "ipc.fig3", "ipc.fig4", "ipc.fig5", "ipc.fig6", "ipc.reduce-scatter-block"])
def test_host_help_of_a_gpu_benchmark_lists_its_options_or_says_why_it_cannot(run, shown_help, name):
    if "\n  bench " not in shown_help.stdout:
        pytest.skip("this build has no benchmarks")
    shown = run("bench", name, "--help")
    assert shown.returncode == 0 and ("no CUDA" in shown.stdout) != ("--json" in shown.stdout), shown


def test_host_every_figure_that_the_roadmap_calls_there_is_a_benchmark(run, shown_help, sources):
    if "\n  bench " not in shown_help.stdout:
        pytest.skip("this build has no benchmarks")
    listed = re.findall(r"^  (\S+) ", run("bench", "--help").stdout, re.MULTILINE)
    there = re.findall(r"^\| `(\w+\.\w+)` .*\| there(?!, by)[^|]*\|$", (sources / "docs/design/roadmap.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(there) > 20 and set(there) <= set(listed), sorted(set(there) - set(listed))


def test_host_version_tells_the_version_and_the_revision_once(run):
    result = run("--version")
    assert result.returncode == 0, result
    assert re.fullmatch(r"partita \d+\.\d+\.\d+ \(revision [-A-Za-z0-9._+/]+\)\n", result.stdout)


@pytest.fixture(scope="module")
def after_wrong_commands(run):
    """What became of each of them, several at once: Open MPI's launcher waits two seconds where a rank has failed."""
    with concurrent.futures.ThreadPoolExecutor(STARTS_AT_ONCE) as pool:
        return dict(zip(map(tuple, WRONG_COMMANDS), pool.map(lambda arguments: run(*arguments), WRONG_COMMANDS)))


@pytest.mark.parametrize("arguments", WRONG_COMMANDS, ids=lambda arguments: "_".join(arguments) or "nothing")
def test_host_a_wrong_command_says_what_is_wrong(after_wrong_commands, arguments):
    result = after_wrong_commands[tuple(arguments)]
    assert result.returncode == 2, result
    assert any(name in result.stderr for name in ("partita", "bce", "cg", "fft", "jacobi2d", "life")), result
    if arguments and arguments[-1] in ("frobnicate", "--frobnicate", "leftover"):
        assert result.stderr.count(arguments[-1]) == 1, "the wrong word is named, once"


# ---- What info tells --------------------------------------------------------------------------------------------------


def link_lines(result):
    """What info tells of each link, as (memory, line), under what its pairs of ranks are called."""
    groups, group = {}, None
    for line in result.stdout.splitlines():
        if line.startswith("    ") and " transfer" in line:
            groups.setdefault(group, []).append((line[11:25].strip(), line))
        elif line.startswith("  "):
            group = line.strip()
    return groups


def expect_gpu_links(result, ranks):
    groups = link_lines(result)
    assert len(groups) == min(ranks, 2), f"the ranks' pairs are grouped by themselves and others: {result.stdout}"
    for pairs, lines in groups.items():
        own = pairs == "every rank to itself"
        plain = [line for memory, line in lines if memory == "GPU"]
        pool = [line for memory, line in lines if memory == "GPU pool"]
        assert len(plain) == 2, f"the links of GPU memory, two sizes, from {pairs}: {result.stdout}"
        if own or "reaches no other" not in result.stdout:
            assert all(" direct " in line and "maps the receive buffer" in line for line in plain), f"GPU memory is mapped, from {pairs}"
        assert len(pool) == 1, f"the link of memory from pools, from {pairs}: {result.stdout}"
        if own:
            assert all("maps the receive buffer" in line for line in pool), "a rank writes its own pool"
        else:
            assert all("staged in host memory, since" in line and "stream-ordered pool (cudaMallocAsync)" in line
                       for line in pool), "info tells why memory of a pool is staged"


@pytest.fixture(scope="module")
def info(run):
    result = run("info")
    assert result.returncode == 0, result
    return result


def test_info_tells_who_takes_gpu_memory(run, info):
    line = [line for line in info.stdout.splitlines() if line.startswith("GPU memory in MPI's own calls")]
    assert len(line) == 1, info.stdout
    assert "by Partita, since the MPI" in line[0] or "left to the MPI, since the MPI" in line[0], line
    assert "left to the MPI, since PARTITA_GPU_AWARE is off" in run("info", PARTITA_GPU_AWARE="off").stdout


@pytest.mark.parametrize("setting", ["auto", "4096", "off"])
def test_host_info_tells_from_which_size_on_collectives_go_from_gpu_to_gpu(run, setting):
    """A build without CUDA, or a machine without a GPU, has none whatever the setting; "off" has none anywhere."""
    result = run("info", PARTITA_GPU_AWARE="on", PARTITA_PEER_COLLECTIVES=setting)
    assert result.returncode == 0, result
    lines = result.stdout.splitlines()
    first = [number for number, line in enumerate(lines) if line.startswith("collectives on GPU memory by peer memory")]
    assert len(first) == 1, result.stdout
    title = lines[first[0]]
    if setting == "off":
        assert title.endswith("none, since a rank has PARTITA_PEER_COLLECTIVES off"), title
    elif ": none, since" in title:
        assert title.endswith(("built without CUDA", "no rank has a GPU")), title
    else:
        sizes = dict(line.split()[:2] for line in lines[first[0] + 1:first[0] + 14])
        assert len(sizes) == 13 and all(name.startswith("MPI_") for name in sizes), result.stdout
        assert setting == "auto" or set(sizes.values()) == {setting}, sizes
    off = run("info", PARTITA_GPU_AWARE="off")
    assert "by peer memory, with libpartita_mpi: none, since Partita takes no GPU memory in MPI's own calls" in off.stdout


def algorithm_lines(result):
    """The line of each collective, by its name; and the line above them."""
    lines = result.stdout.splitlines()
    first = [number for number, line in enumerate(lines) if line.startswith("algorithms of collectives, on")]
    assert len(first) == 1, result.stdout
    told = [line.split(maxsplit=1) for line in lines[first[0] + 1:] if line.startswith("  ") and " host: " in line]
    return lines[first[0]], dict(told)


def test_host_info_tells_which_algorithms_collectives_take(info, ranks):
    title, told = algorithm_lines(info)
    assert f"on {ranks} rank" in title and "all built in, as PARTITA_TUNING names no file" in title, title
    assert len(told) == 22 and told["scan"] == "host: recursive_doubling" and told["barrier"] == "host: dissemination", told
    if ranks > 1:
        assert re.fullmatch(r"host: binomial; kernels: packets, buffers from \d+", told["bcast"]), told["bcast"]


def test_host_info_tells_the_rules_of_a_file_before_the_built_in_ones(run, ranks, tmp_path):
    file = tmp_path / "rules.csv"
    file.write_text("# partita tuning 1\ncollective,driver,ranks,from_bytes,algorithm,medians_us\n"
                    f"allreduce,host,{ranks},65536,ring,\nallgather,host,any,0,ring,\nbcast,host,{ranks + 1},0,chain,\n"
                    "allreduce,device,any,0,buffers,\n", encoding="utf-8")
    result = run("info", PARTITA_TUNING=str(file))
    assert result.returncode == 0, result
    title, told = algorithm_lines(result)
    assert "(file): PARTITA_TUNING, else built in" in title, title
    assert told["allreduce"] == "host: recursive_doubling, ring from 65536 (file); kernels: buffers (file)", told["allreduce"]
    assert told["allgather"].startswith("host: ring (file)") and told["bcast"].startswith("host: binomial"), told


@pytest.fixture(scope="module")
def info_of_link_mpi(run):
    result = run("info", PARTITA_LINK="mpi")
    assert result.returncode == 0, result
    return result


@pytest.mark.parametrize("words", ["MPI_THREAD_", "PARTITA_LINK ", "every rank to itself", "GPUs of rank"])
def test_host_info_tells_of(info, words):
    assert words in info.stdout


def test_host_info_tells_what_each_link_can_do(sources, info):
    names = re.findall(r"^PARTITA_LINK\((\w+)\)$", (sources / "src/link/links.inc").read_text(encoding="utf-8"), re.MULTILINE)
    told = re.search(r"^links, in the order .*\n((?:  .*\n)+?)links, tried", info.stdout, re.MULTILINE)
    assert told, info.stdout
    lines = told[1].splitlines()
    assert [line.split()[0] for line in lines] == names, told[0]
    for line in lines:
        assert re.fullmatch(r"  \w+ +(?:is not in this build|moves host .*)", line), line
    assert "kernels put GPU to GPU; flags in host memory" in lines[0], lines


def test_host_info_tells_whether_fftw_is_in_the_program(given, info):
    """Who passes the program on looks there: a build with PARTITA_FFTW=OFF has no trace of FFTW's calls."""
    told = re.findall(r"^FFTW in this program: (.*)$", info.stdout, re.MULTILINE)
    assert len(told) == 1, info.stdout
    program = pathlib.Path(given["program"]).read_bytes()
    if b"fftw_execute" in program:
        assert re.fullmatch(r"\S*3\.\d+\S*; who passes the program on does so under the GPL", told[0])
    else:
        assert told[0].startswith("none") and b"libfftw3.so" not in program


def test_host_info_counts_the_ranks(info, ranks):
    assert f"job: {ranks} rank" in info.stdout


def test_host_info_tells_of_gpus_or_why_there_are_none(info, ranks):
    if "GPU 0: " in info.stdout:
        expect_gpu_links(info, ranks)
    else:
        assert "no GPUs: " in info.stdout


def test_host_info_tells_the_links_of_a_node(info, ranks):
    assert ranks == 1 or "every rank to the others of its node" in info.stdout


def test_host_a_forced_link_decides_for_every_pair(info_of_link_mpi):
    links = [line for line in info_of_link_mpi.stdout.splitlines() if " transfer" in line and line.startswith("    ")]
    assert links
    assert all(" mpi " in line for line in links), links
    assert "every rank to itself" in info_of_link_mpi.stdout, "pairs whose reasons name their ranks are grouped"


def test_host_cores_are_those_of_the_quota_where_it_gives_fewer(run, tmp_path):
    if subprocess.run([*ONE_CORE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("needs mount namespaces, to show the program a quota")
    told = run("info", before=ONE_CORE)
    assert told.returncode == 0 and " on, 1 core\n" in told.stdout, told
    solved = run("run", "jacobi2d", "--size", "16", "16", "--max-iterations", "10", "--threads", "2", "--output", tmp_path / "plate",
                 before=ONE_CORE)
    assert "share 1 core, so the times below mean nothing" in solved.stdout + solved.stderr, solved


@pytest.mark.parametrize("words", [["jacobi2d", "--size", "24", "24", "--max-iterations", "2", "--threads", "1", "--no-picture"],
                                   ["life", "--size", "24", "24", "--generations", "2", "--no-picture"],
                                   ["cg", "--size", "12", "12", "--batch", "2", "--no-verify"],
                                   ["bce", "--samples", "24", "--features", "24", "--steps", "2", "--threads", "1"]],
                         ids=["jacobi2d", "life", "cg", "bce"])
def test_host_an_app_runs_its_modes_in_an_order_drawn_for_each_round(run, words, tmp_path):
    def rounds(seed):
        ended = run("run", *words, "--repeat", "6", "--order-seed", str(seed), "--json", "--output", tmp_path / "made")
        assert ended.returncode == 0, ended
        assert json.loads((tmp_path / "made.json").read_text())["order_seed"] == seed
        turns = re.findall(r"^  (\S+) +\d+ (?:iterations|generations|steps),", ended.stdout, re.MULTILINE)
        modes = len(set(turns))
        assert modes > 1 and len(turns) == 6 * modes, ended.stdout
        return [tuple(turns[begin:begin + modes]) for begin in range(0, len(turns), modes)]
    found = rounds(1)
    assert all(sorted(each) == sorted(set(found[0])) for each in found) and len(set(found)) > 1, found
    assert rounds(2) != found


@pytest.mark.parametrize("before", [ONE_CORE, ["taskset", "-c", str(min(os.sched_getaffinity(0)))]], ids=["by_quota", "by_mask"])
def test_pair_of_ranks_sees_that_it_shares_a_core(run, before):
    """Where they do the receiver does not help to copy, since that would only take the sender's core away."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores, of which one can be left out")
    if subprocess.run([*before, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("needs mount namespaces, to show the program a quota")
    apart, together = run("info"), run("info", before=before)
    if "through the kernel" not in apart.stdout:
        pytest.skip("no rank may reach another's memory here")
    assert "the threads of both ranks copy through the kernel" in apart.stdout, apart
    assert "the sender's thread copies through the kernel" in together.stdout, together


@on_gpus
def test_gpu_info_sees_the_gpus_and_their_links(info, ranks):
    assert "GPU 0: " in info.stdout
    expect_gpu_links(info, ranks)


@on_gpus
def test_gpu_a_forced_link_decides_for_gpu_memory_too(info_of_link_mpi):
    lines = [line for lines in link_lines(info_of_link_mpi).values() for memory, line in lines if memory.startswith("GPU")]
    assert lines
    assert all(" mpi " in line for line in lines), lines


# ---- Settings ---------------------------------------------------------------------------------------------------------


def test_host_a_wrong_value_of_a_setting_is_an_error_that_names_it(run):
    result = run("info", PARTITA_PARTITIONS="many")
    assert result.returncode != 0, result
    assert "PARTITA_PARTITIONS=many" in result.stderr + result.stdout


def test_host_an_unknown_setting_is_a_warning_that_names_it(run):
    result = run("info", PARTITA_FROBNICATE="1")
    assert result.returncode == 0, result
    assert "PARTITA_FROBNICATE" in result.stderr + result.stdout
