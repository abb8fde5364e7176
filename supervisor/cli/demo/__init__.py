"""`understudy demo`: all that it does, in a few seconds, and the proof."""
