"""Agent sessions, supervised.

This is where the embedding API will live: `open()` a store, create sessions, send them
input, steer and interrupt them, watch what they do, and find them again after a crash.

Today it holds the version and nothing else. What works already is `actors`, the runtime
below, which stands on its own; the rest of the core, the store and the sessions come next.
"""

__version__: str


def __getattr__(name: str) -> str:
    # Asked for late: importlib.metadata would be a good part of the cost of importing us.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - late on purpose, see above

        return version("understudy")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
