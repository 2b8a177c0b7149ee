"""What a program is: types, frozen nodes, visitors, printer, verifier."""
