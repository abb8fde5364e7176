"""The HTTP interface: it decodes requests, calls the embedding API and encodes the answers.

`gate` authenticates, `app` routes a request to its operation: `request` and `params` read the
arguments, a function of `routes` calls the embedding API, and `encode`, `response` and `problems`
write the answer. `sse` has the streams, `drain` refuses new work before shutdown, `openapi`
generates the OpenAPI document from the operations. The client package imports only `encode`,
`problems` and `reports`.
"""
