"""What to do when a session is told something: one function for each row of the table.

`flow` has what several of them need: how an input is accepted, a turn begun and ended, a session
finalised. The other files are named after what they are about.
"""
