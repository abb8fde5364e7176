"""The rules of the table: one function for each row.

The files are named after their subject, and import each other without cycles. From the bottom:
`refusals`, `input_queue`, `permission_requests`, `ladder`, `steering`, `stopping`, `restarts`,
`turn_flow` (start and end of a turn), then `interrupts`, `inputs`, `children`, `turns`, `agents`.
"""
