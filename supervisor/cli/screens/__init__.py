"""Live screens of the terminal, on Textual and asyncio, in the process of the client.

Rule 1: what a screen shows is decided in modules without Textual (`top_model.py` and its
        neighbours): items go in, lines come out, and they are tested without a terminal.
Rule 2: text of agents reaches a widget as `Text` or segments, never as markup.
Rule 3: Textual takes long to import, so a command imports a screen when it runs.
"""
