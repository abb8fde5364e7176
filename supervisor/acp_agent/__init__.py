"""`understudy acp`: the supervisor as an agent of the Agent Client Protocol, for editors.

A client of the supervisor (`supervisor.client`, or a supervisor of this process) to the south, and
a JSON-RPC connection over standard input and output to the north. It translates and decides
nothing: what it shows are the records of sessions, and what it is asked to do it asks of the
supervisor.

Rule 1: `mapping` modules are pure: records, rows and errors in, messages out.
Rule 2: nothing but the protocol is written to standard output.
Rule 3: a client that does not read stops our reading of its sessions, and slows no session.
Rule 4: the end of standard input ends nothing but this process: turns, queues and requests go on.
"""
