"""One module a tool: its arguments, its answer, its function, and the `SessionTool` as TOOL."""
