"""The steps of a script. `language` has them all, and plays them.

`common` are those that every scripted agent knows, `errands` those that need a client to do or to
say something, `unruly` those that no proper agent would take.
"""
