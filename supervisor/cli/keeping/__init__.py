"""Commands about what is kept: export, import, repair, backups, cleaning up."""
