"""Who may begin: the tree's one desk, and those who work at it.

`desk` decides and books, `spawning` brings children there, `purse` knows the budgets, `starts` and
`room` how many agents there may be, and `bell` calls whoever something has changed for.
"""
