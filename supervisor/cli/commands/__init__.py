"""The commands, one module for each group of commands; `cli/command_table.py` lists them."""
