"""PTO artifacts: the `.pto` text as an xDSL dialect, and its execution byte by byte. Importing this is cheap."""
