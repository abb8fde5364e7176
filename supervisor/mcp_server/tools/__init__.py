"""The tools, one module a group; `toolbox` lists them."""
