"""The decisions: what a session becomes when it is told something.

Rule 1: everything here is pure. Time, ids, capabilities and limits arrive inside events;
        what is to be done leaves as effects.
Rule 2: this room knows neither `actors` nor trio, no clock, no chance, no file, no process.
        `nox -s lint` holds it to that.

`table.decide(session, event)` is the one entrance: a rule drafts a step, which is facts that fold
into the new session, effects to carry out, and a reply for whoever asked. What becomes of a stored
session when the supervisor is back after a kill is a row for each phase (`SupervisorRestarted`).
The tree (spawning, budgets, liveness) has its place here and comes next.
"""
