"""Sessions at work: trio actors around the pure core.

`actor` is the shell of one session: decide, commit, adopt, perform. `log` numbers what it writes
and `office` is what its driver sees of it. A `seat` is what outlives the actor: who waits, who
watches (`feed`). `tree` finds, makes, wakes and lays to rest. `timers`, `clock` and `ids` are time
and names. `handle` and `supervisor` are what users hold.
"""
