"""The help of the screen of a session."""

from typing import Final

HELP: Final = """\
Enter          do what the line below the input says
Tab, Ctrl-T    change the mode: send, steer, interrupt
Ctrl-J         begin another line (pasted lines stay together)
Up, Down       texts that this session got before
Ctrl-C         interrupt the running turn; twice: leave
Ctrl-D         leave, if the input is empty; the session goes on
PgUp, PgDn     scroll (Shift-Up and Shift-Down by line)
Ctrl-Home      the first records; older ones are read at the top
Ctrl-End, Esc  the end, which the screen follows again
Ctrl-O         thoughts whole, or as one line
Esc            move to a request, where letters answer it, and back
               (in a session opened from `top`: back to the list)
y n            there: allow, reject once (in the input: Alt-y, Alt-n)
a d            there: allow always, reject always, after a second key
1-9            there: an answer that a question suggests
/answer TEXT   any other answer
/help          also /steer /interrupt /inputs /cancel /why /show /quit
F1             this help

send       starts a turn, or waits in the queue while one runs
steer      goes into the running turn
interrupt  ends the running turn, and starts another with the text
"""
