"""One session at work: the actor around the pure core, and what it is made of.

`actor` decides, commits, adopts, performs. `log` numbers what it writes, `agent/` is who works in
it, `watch/` what it notices by itself. A `seat` outlives the actor: who watches (`feed`), who
waits (`results`), what was said (`past`). `repeats` answers requests that come twice.
"""
