"""What the build gives the tests in Python, on their command line."""

import shlex

import pytest


def add_option(parser):
    parser.addoption("--given", action="append", default=[], metavar="NAME=VALUE",
                     help="what the build knows and the tests need; ctest --verbose shows with what it starts them")


class Given:
    """The values by their names. A case that asks for what is missing fails."""

    def __init__(self, config):
        self.values = dict(word.split("=", 1) for word in config.getoption("given"))

    def __getitem__(self, name):
        if name not in self.values:
            pytest.fail(f"this case needs --given {name}=...; 'ctest --verbose' shows the whole command line", pytrace=False)
        return self.values[name]

    def get(self, name, default):
        return self.values.get(name, default)

    def words(self, name):
        return shlex.split(self[name])

    def launcher(self, ranks=None):
        """The words that start a program on `ranks` ranks, by default on as many as are given."""
        return [self["mpiexec"], "-n", str(ranks or self["ranks"]), *self.words("mpiexec_flags")]
