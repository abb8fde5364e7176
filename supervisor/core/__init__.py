"""Decisions about sessions: `decide(state, event)` returns the next state, facts and effects.

Rule 1: everything here is pure. Time, ids, capabilities and limits arrive inside events; work
        to be done leaves as effects.
Rule 2: this package imports neither `actors` nor trio, and uses no clock, randomness, file or
        process. `nox -s lint` checks that.

`table.decide(session, event)` is the one entry point: a rule drafts a step, which consists of
facts that fold into the new state, effects to carry out, and a reply for the caller. The
recovery of a stored session after a kill is a row for each phase (`SupervisorRestarted`).
Limits, budgets and positions in the tree are in `tree/`, the limits of silence in
`liveness.py`.
"""
