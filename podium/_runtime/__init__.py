"""What everything else stands on: compiler options, threads, files, interrupts, words."""
