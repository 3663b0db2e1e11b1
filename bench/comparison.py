"""Measures runs of a comparison, in several jobs each. Job k has the seed k, from which its subjects' order is drawn, and writes NAME-k.json;
NAME.csv holds the jobs of NAME as one figure. Where two builds make each job in turns (turns.py), the older one writes
before/NAME-k.json, and before-NAME.csv holds both."""

import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shlex

import launch
import turns
from partita_report.failure import Failure
from partita_report.results import read
from partita_report.summary import figure_of, to_csv
from partita_report.turns import figure_of_turns
from processes import Processes

# `arguments` follow `partita bench`, or `partita run APP` where `app` names one, which writes a file a size: `size` is its part of the name.
# `environment` has settings of its own, NAME=VALUE each.
Run = collections.namedtuple("Run", "name arguments app size environment", defaults=("", "", ()))


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def add_options(parser, jobs=5):
    """--mpirun, --jobs and --bind."""
    parser.add_argument("--mpirun", default="mpirun -n 2", help="the command that starts the ranks")
    parser.add_argument("--jobs", type=positive, default=jobs, help="jobs behind each figure")
    parser.add_argument("--bind", choices=["auto", "none"], default="auto", help="pin ranks by the launcher's words, if it has any")


def now():
    """As records tell when they were made."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def cores_a_rank(wanted, ranks=2):
    """`wanted`, if all ranks can have as many."""
    return max(1, min(wanted, len(os.sched_getaffinity(0)) // ranks))


class Comparison:
    """`parser` has the options of add_options; a wrong one ends the program. `cores` are wanted for each of the `ranks`, by default as
    many as the launcher's words start. So many jobs run `at_once`. Each job is made by all `builds`, of which the last one is measured;
    without, by options.program."""

    def __init__(self, parser, options, *, cores, limit_s, environment=None, ranks=None, at_once=1, builds=()):
        try:
            self.launcher = launch.split_launcher(options.mpirun)
        except ValueError as wrong:
            parser.error(str(wrong))
        self.ranks = ranks or launch.ranks_of(self.launcher)
        self.lanes = []
        if at_once > 1:
            self.pinning = ["-bind-to", "user:CORES"]
            try:
                self.lanes = launch.lanes(self.launcher, at_once, self.ranks, cores)
            except ValueError as wrong:
                parser.error(str(wrong))
        else:
            self.pinning = launch.pinning_words(self.launcher, cores_a_rank(cores, self.ranks)) if options.bind == "auto" else []
        self.launcher += self.pinning
        self.builds = builds or [turns.Build(turns.NOW, options.program)]
        self.output, self.jobs = options.output, options.jobs
        self.limit_s, self.environment = limit_s, environment
        self.processes = Processes()

    def file_of(self, run, job, build=None):
        return self.output / (build or self.builds[-1]).folder / f"{'-'.join(filter(None, [run.name, run.size]))}-{job}.json"

    def launcher_of(self, job):
        """The words that start `job`, on the cores that it has for itself where several run at once."""
        return self.lanes[(job - 1) % len(self.lanes)] if self.lanes else self.launcher

    def environment_of(self, run):
        return {**(os.environ if self.environment is None else self.environment), **dict(setting.split("=", 1) for setting in run.environment)}

    def words(self, run, job, file, build=None):
        option = "--order-seed" if run.app else "--seed"
        is_measured = build is None or build is self.builds[-1] or build.library_path  # what older programs know differs
        seed = [option, str(job)] if is_measured or turns.knows_option(build.program, run, option) else []
        if run.app:  # the files of an app have a common beginning that --output gives
            return ["run", run.app, *run.arguments, *seed, "--json", "--output", str(file)[:-len(".json")]]
        return ["bench", *run.arguments, *seed, "--json", str(file)]

    def shown_command(self, run, job="JOB"):
        """The command for readers: without this machine's paths."""
        words = [re.sub(r"(^|:)/[^?]*/", r"\1", word) for word in self.words(run, job, pathlib.Path(self.file_of(run, job).name))]
        launcher = self.launcher if job == "JOB" else self.launcher_of(job)
        return f"{shlex.join([*run.environment, *launch.shown_launcher(launcher)])} partita {shlex.join(words)}"

    def measure(self, run, job, build=None):
        """True if the job ended well; its JSON file is then in the output folder, and tells the launcher's words too, and of an app, too,
        when it began."""
        if self.processes.is_ending:
            return False
        build = build or self.builds[-1]
        who = f"{run.name}, {build.name}" if len(self.builds) > 1 else run.name
        print(f"\n== {who}, job {job} of {self.jobs}: {self.shown_command(run, job)}", flush=True)
        file = self.file_of(run, job, build)
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)
        turns.read_anew(build)
        began = now()
        code = self.processes.run([*self.launcher_of(job), *build.setting, build.program, *self.words(run, job, file, build)], self.limit_s,
                                  self.environment_of(run))
        if code is None:
            print(f"== {who}: did not end within {self.limit_s} s", flush=True)
            return False
        if code != 0 or not file.exists():
            print(f"== {who}: exit status {code}", flush=True)
            return False
        found = json.loads(file.read_text())
        found = {"date": began, **found, "command": self.shown_command(run, job)}
        file.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        return True

    def measure_all(self, runs, measure=None):
        """All runs once, then all of them again: what changes on the machine meanwhile meets every run. Where several jobs run at
        once, each begins with another run, so that runs of one kind seldom meet. Builds make a job one right behind the other. The runs
        whose jobs all ended well, and the others. `measure` is called in place of the method of that name."""
        measure = measure or self.measure
        lanes = max(1, len(self.lanes))

        def ended_well(run, job):
            return all([measure(run, job, build) for build in turns.drawn_order(self.builds, run, job)])

        def failed_in(lane):
            first = len(runs) * lane // lanes
            return [run for job in range(lane + 1, self.jobs + 1, lanes) for run in runs[first:] + runs[:first] if not ended_well(run, job)]

        with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
            try:
                failed = [run for each in pool.map(failed_in, range(lanes)) for run in each]
            except BaseException:  # of this thread, which has waited for the others
                self.processes.end()
                raise
        return [run for run in runs if run not in failed], [run for run in runs if run in failed]

    def results(self, run):
        """What the jobs wrote."""
        return [json.loads(self.file_of(run, job).read_text()) for job in range(1, self.jobs + 1)]

    def write_summaries(self, runs):
        """Runs of one name become one figure, and a second one of both builds, where there are two. Returns the latter."""
        named, of_both = collections.defaultdict(list), []
        for run in runs:
            named[run.name].append(run)
        for name, own in named.items():
            self.write_summary(figure_of(name, self.jobs_of(own, self.builds[-1])))
            if len(self.builds) > 1:
                try:
                    of_both.append(self.figure_of_both(f"{turns.BEFORE}-{name}", own))
                except Failure as failure:
                    print(f"== {failure}", flush=True)
        for figure in of_both:
            self.write_summary(figure)
        return of_both

    def write_summary(self, figure):
        (self.output / f"{figure.name}.csv").write_text(to_csv(figure), encoding="utf-8")

    def jobs_of(self, runs, build):
        return [job for run in runs for number in range(1, self.jobs + 1) for job in read(self.file_of(run, number, build))]

    def figure_of_both(self, name, runs):
        differs = "the library" if self.builds[0].library_path else "program and library"
        return figure_of_turns(name, list(zip(*(self.jobs_of(runs, build) for build in self.builds))),
                               {build.name: build.revision for build in self.builds}, differs)
