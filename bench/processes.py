"""Processes of a program that measures: none goes on, beside whatever is measured next, when that program ends before them."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

STOP_S = 10  # between a launcher's being told to end, which ends its ranks, and its being killed


def exit_when_told_to_end():
    """Makes SIGTERM an exception, as SIGINT is: what is under way can be ended by whoever began it. Called by the main
    thread."""
    def end(number, _frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, end)


class Processes:
    """Each has a session of its own, so that all of it can be ended."""

    def __init__(self):
        self.lock = threading.Lock()  # of the next two
        self.running = set()
        self.is_ending = False

    def run(self, command, limit_s, environment):
        """Its exit status, or None where it did not end within `limit_s` seconds, or where none begins any more. Any thread."""
        with self.lock:  # whoever ends all of them finds this one, or it does not begin
            if self.is_ending:
                return None
            process = subprocess.Popen(command, start_new_session=True, env=environment)
            self.running.add(process)
        try:
            return process.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            send(process, signal.SIGKILL)
            process.wait()
            return None
        except BaseException:
            self.end()
            raise
        finally:
            with self.lock:
                self.running.discard(process)

    def end(self):
        """Ends all of them, and lets none begin any more."""
        with self.lock:
            self.is_ending = True
            ending = list(self.running)
        for process in ending:
            send(process, signal.SIGTERM)
        for process in ending:
            try:
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                send(process, signal.SIGKILL)
                process.wait()


def send(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
