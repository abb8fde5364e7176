"""Screens and widgets on Textual, in the client's process; imported late, for Textual is slow."""
