"""HTTP in, commands out, no decisions.

`gate` authenticates, `app` routes, `resource` reads one request (`request`, `params`, the
decoder), calls one operation of `routes` and writes the answer (`encode`, `response`,
`problems`). `sse` has the streams, `drain` refuses new work before shutdown, `openapi` draws
the document from the operations. A client needs only `encode`, `problems` and `reports`.
"""
