"""The `pto` dialect: its types as plain data (`types`), its ops as one table (`table`), both held in xDSL
(`attributes`, `operations`), and what an assembler refuses (`verify`).

Nothing here is imported with the package: the xDSL modules are loaded when a `.pto` text is first read.
"""
