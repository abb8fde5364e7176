"""What may be left of agents whose guardian or supervisor is dead.

`marker` is what everything of one containment bears, `owner` says who is no leftover, and `sweep`
finds and kills those who are.
"""
