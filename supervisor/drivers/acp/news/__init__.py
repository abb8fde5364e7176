"""What an agent says of its work, put where it belongs.

`updates` takes each `session/update` in its order; `calls` knows the tool calls of the turn,
`tools` what can be known of one, `usage` what was spent before, `surfaced` what a person may choose
from. `ending` judges how a turn went.
"""
