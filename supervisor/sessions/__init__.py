"""Sessions at work: trio actors around the pure core.

`shell/` is one session, `surface/` what users hold of all of them. In between: the `tree` knows
who is awake and reaches who is not, by `lines`; the `register` who bears which key and how
sessions come and go; the `desk/` who may begin; the `inbox` what waits for a person; the `scribe`
writes what agents say; `hooks/` are the users' own. `house/` is what all of them share, and how
that opens and closes.
"""
