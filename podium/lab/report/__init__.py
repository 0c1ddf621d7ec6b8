"""The report of an experiment: one HTML file, made from the stored results alone."""

from podium.lab.report.writing import write_report as write_report
