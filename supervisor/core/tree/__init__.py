"""The tree of sessions: positions, slots and spending.

Rule 1: no function of this package awaits, so a check and the reservation that depends on it are
        one step.
Rule 2: the node of a session is set from its row, never counted up and down by other code;
        setting it twice changes nothing, and a slot is released exactly once.
"""
