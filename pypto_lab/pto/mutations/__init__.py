"""How much of what can go wrong in a `.pto` text is noticed: changes of one place (`make`), whether they change the
meaning (`meaning`), and what reading, checking and running the changed text says (`measure`)."""
