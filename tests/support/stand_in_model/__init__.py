"""A stand-in for a language model, served on loopback: it plays the script that a prompt contains.

Rule 1: the script is in the prompt. An agent, its child and a second prompt each get their own
        answers from one server that keeps no state but the record of its requests.
Rule 2: a dialect only translates. What is answered is decided by `script.answer`, once for all.
Rule 3: a request in an unknown form is answered with an error, and recorded.
"""
