"""The rules of the table: one function for each row.

`turn_flow` has the parts that several rules need: accept an input, start and end a turn, stop a
session. The other files are named after their subject.
"""
