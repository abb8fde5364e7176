"""The agent's side of a session: who works in it, what that one sees, how a turn is made ready."""
