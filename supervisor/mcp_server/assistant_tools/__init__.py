"""Tools that only the assistant of a person gets: sessions of every tree.

None of them deletes a session, widens its permissions or changes the configuration.
"""
