"""Requests read, and answers written."""
