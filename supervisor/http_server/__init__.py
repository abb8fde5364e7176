"""The HTTP server below every app: connections, gates, bodies, problem documents and responses."""
