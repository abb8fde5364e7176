"""How things look on the wire: attrs classes as JSON and back, and errors as problems.

    encode(thing)               bytes of JSON, of any class of the embedding API
    decode(kind, plain)         the thing again; what a newer server adds is left out
    read(kind, plain)           the same and strict, with a `Fault` for each thing that is wrong
    problem_of(error)           an error as a `ProblemDetails`, and its status
    error_of(plain, status)     the error again, of the same class
    answers                     what only this surface answers with

Nothing in here knows HTTP's machinery, so a client can use it and import nothing else.
"""

from .problems import ProblemDetails, RequestRefused, error_of, problem_of
from .reading import Fault, Unreadable, decode, read
from .writing import encode, encode_page

__all__ = [
    "Fault",
    "ProblemDetails",
    "RequestRefused",
    "Unreadable",
    "decode",
    "encode",
    "encode_page",
    "error_of",
    "problem_of",
    "read",
]
