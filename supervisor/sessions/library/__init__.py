"""What people do with what was written: find it, take it along, bring it in, mend it."""
