"""`understudy top`: all sessions, live, and keys to steer and interrupt them."""
