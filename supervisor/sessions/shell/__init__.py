"""One session at work: the actor around the pure core, and what it is made of.

`actor` decides, commits, adopts, performs. `log` numbers what it writes, `office` is what its
driver sees of it, `timers` ring for it. A `seat` outlives the actor: who watches (`feed`), who
waits (`results`), what was said (`past`). `repeats` answers requests that come twice.
"""
