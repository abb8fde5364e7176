"""What people and programs get to see: safe text, columns, times, JSON."""
