"""The tree of sessions: who may have how many below them, and what all of them may spend.

Rule 1: nothing in here waits, so a check and the reservation that rests on it are one step.
Rule 2: what the ledger says of a session is set to what its row says, never counted up and down by
        others; saying it twice changes nothing, and a place is given back exactly once.
"""
