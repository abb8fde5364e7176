"""HTTP in, commands out, no decisions.

`wire` says how things look as JSON, and is all that a client needs of this room. `describing` says
what can be asked for, `answering` reads requests and writes answers, `routes` has one function for
each thing that can be asked, `streaming` has the live feeds, `gate` lets people in, `doors` says
whether work is taken, and `app` puts it together.
"""
