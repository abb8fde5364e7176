"""Sessions in one SQLite file.

`files` opens it, `schema` says what is in it, `lock` keeps others out, `writing` and `reading` are
all the SQL there is, `store` is the port around them, and `copies` makes backups.
"""
