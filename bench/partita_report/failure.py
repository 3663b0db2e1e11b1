class Failure(Exception):
    """A sentence: what was wrong, where, and what was expected."""
