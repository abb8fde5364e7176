"""What all sessions share, and how that opens, changes and closes.

`house` holds it together; `recovery` is before anybody is let in, `reloading` while they live,
`leaving` the end. `works` are carried through whoever gives up, `taps` tell what happens, and the
`lookout` sees whether the store is still there.
"""
