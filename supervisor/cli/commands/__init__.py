"""Commands that change what sessions do; they talk to the daemon."""
