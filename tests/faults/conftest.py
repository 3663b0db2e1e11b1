"""The jobs of the chosen cases, which run side by side (jobs.py)."""

import pytest

from jobs import start_all


@pytest.fixture(scope="session")
def futures(request, given):
    pool, futures = start_all(request.session.items, given)
    yield futures
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def job(request, futures):
    """The finished job of this case."""
    return futures[request.node.nodeid].result()


def pytest_make_parametrize_id(val):
    return str(val).replace(" ", "_")
