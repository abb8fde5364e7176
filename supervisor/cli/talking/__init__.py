"""Commands that talk with an agent in this very process: `run` and `chat`."""
