"""A small MCP server of the tests, over stdio and over HTTP."""
