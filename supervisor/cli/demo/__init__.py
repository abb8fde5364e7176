"""`understudy demo`: the main features in a few seconds, with a proof of durability."""
