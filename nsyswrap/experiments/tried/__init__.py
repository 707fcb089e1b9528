"""What runs in the process of a program that is tried: it finds the program's objects, takes turns, and times steps."""
