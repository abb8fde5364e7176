"""Commands about the house itself: agents, configuration, health, the daemon."""
