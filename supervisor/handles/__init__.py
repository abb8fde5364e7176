"""The public handles: supervisors, sessions, children, results.

Rule 1: `arguments` checks every argument once; no package behind it checks shapes again.
Rule 2: `arguments` and `shapes` import `core` only, so that `client` and `api` use them without
        loading the runtime.
"""
