"""`understudy demo`: the main features in about ten seconds, with a proof of durability."""
