"""The command line. `commands.py` has the commands, `terminal.py` the tables, `inputs.py` what comes through pipes."""

from podium.cli.commands import app as app
from podium.cli.commands import main as main
