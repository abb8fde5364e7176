"""Sessions at work: trio actors around the pure core.

`shell/` is one session, `surface/` what users hold of all of them. In between: the `tree` knows
who is awake and reaches who is not, the `register` who bears which key and how sessions come and
go, the `inbox` what waits for a person, `leaving` how all of it ends; the `house` is what they
share.
"""
