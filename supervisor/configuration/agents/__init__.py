"""Agents as a configuration describes them, and how they are made of that."""
