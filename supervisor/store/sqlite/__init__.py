"""Sessions in one SQLite file.

`schema` has the tables and migrations, `files` opens connections, `lock` excludes other
supervisors, `write`, `bulk`, `read` and `lists` have the SQL, `query` runs SQL of users, `store`
implements the port, and `backup` copies and restores the file.
"""
