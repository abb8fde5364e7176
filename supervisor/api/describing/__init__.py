"""What can be asked for: operations, the forms that they take, and the document about all of it."""
