"""The long explorations (`nox -s soak`) in pieces that can be interrupted and resumed."""
