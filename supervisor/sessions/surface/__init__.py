"""What users hold: the supervisor, and handles on sessions. What they give is checked here."""
