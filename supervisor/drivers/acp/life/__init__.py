"""An agent process from its start to its end.

`driver` is all of its life, and takes orders. `handshake` is its beginning, with what each side
`offers`; `farewell` is how it is let go, and `failing` says what went wrong.
"""
