"""Commands that an agent has us run.

`terminals` serves its requests; `command` is what it asks for, `terminal` one that runs or has run,
`output` what came of it, and `recorded` keeps its process on record while that lives.
"""
