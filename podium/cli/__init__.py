"""The command line. `commands.py` has the commands, `lab.py` those of `podium lab`, `terminal.py` the tables,
`inputs.py` what comes through pipes."""

from podium.cli import lab
from podium.cli.commands import app as app
from podium.cli.commands import main as main

app.add_typer(lab.app, name="lab")
