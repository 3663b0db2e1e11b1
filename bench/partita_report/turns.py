"""Puts jobs that two builds made in turns into one Figure: each subject once "before" and once "now", and the ratio of now to before
within a pair of jobs, whatever the machine did meanwhile."""
import dataclasses

from partita_report import compare
from partita_report.failure import Failure
from partita_report.results import Job
from partita_report.summary import figure_of, joined

BEFORE, NOW = "before", "now"


def figure_of_turns(name, pairs, revisions, differs):
    """`pairs` are (job before, job now); `revisions` are those of both builds, which differ in what `differs` says. A row that only one of
    a pair has is left out, and its subject named."""
    left_out, jobs = {}, []
    for before, now in pairs:
        for key in ("benchmark", "unit"):
            if before.meta[key] != now.meta[key]:
                raise Failure(f"{now.source} has the {key} '{now.meta[key]}', {before.source} '{before.meta[key]}'; builds are compared "
                              "in the same")
        rows = {BEFORE: by_place(before), NOW: by_place(now)}
        for here, there in ((BEFORE, NOW), (NOW, BEFORE)):
            left_out |= {f"{row.subject} ({here})": None for key, row in rows[here].items() if key not in rows[there]}
        jobs.append(Job(now.source, joined([before.meta, now.meta]), [row for key in rows[BEFORE] if key in rows[NOW]
                                                                      for row in both(rows[BEFORE][key], rows[NOW][key])]))
    if not any(job.rows for job in jobs):
        raise Failure(f"{name}: the two builds have nothing in common; they have {', '.join(left_out)}")
    figure = figure_of(name, jobs)
    figure.meta["revision"] = ", ".join(f"{revisions[build]} ({build})" for build in (BEFORE, NOW))
    figure.meta["differs"] = differs
    if left_out:
        figure.meta["left_out"] = ", ".join(left_out)
    return figure


def by_place(job):
    return {(row.place, row.subject): row for row in job.rows}


def both(before, now):
    yardstick = f"{before.subject} {BEFORE}"
    return dataclasses.replace(before, subject=yardstick, reference=""), dataclasses.replace(now, subject=f"{now.subject} {NOW}", reference=yardstick)


def of_two_builds(figure):
    return "differs" in figure.meta


def table(figure):
    """A verdict for each point, by the ratio within the pairs, and what was left out."""
    verdicts = [compare.verdict(dataclasses.replace(point, subject=point.subject.removesuffix(f" {NOW}")),
                                None if point.ratio is None else (point.ratio, point.ratio_low, point.ratio_high))
                for point in figure.points if point.subject.endswith(f" {NOW}")]
    left_out = f"left out, as only one build has them: {figure.meta['left_out']}\n" if "left_out" in figure.meta else ""
    return f"{figure.name}: times as good as before, {figure.meta['revision']}\n{compare.table(verdicts)}{left_out}"
