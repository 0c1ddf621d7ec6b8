"""From files to files: what the command line calls, and prints the results of."""
