"""The conformance suite of the Model Context Protocol against our server (`nox -s conformance`)."""
