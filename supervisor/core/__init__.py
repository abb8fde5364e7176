"""The decisions: what a session becomes when it is told something.

Rule 1: everything here is pure. Time, ids, capabilities and limits arrive inside events;
        what is to be done leaves as effects.
Rule 2: this room knows neither `actors` nor trio, no clock, no chance, no file, no process.
        `nox -s lint` holds it to that.

Ids, keys and the tree of errors are here. Nothing is decided yet: events, effects and the table
of rules come next.
"""
