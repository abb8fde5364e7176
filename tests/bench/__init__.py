"""Understudy side by side with its peers: `nox -s bench`, or `python -m tests.bench --list`."""
