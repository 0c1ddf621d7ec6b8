"""Worked numbers: the examples of lecture notes and papers on learning to rank, computed again."""

from podium.lab.worked.collecting import worked_numbers as worked_numbers
