"""The command line. Each module adds its commands to the application, in the order of `podium --help`."""

from podium.cli import evaluating as evaluating  # isort: skip
from podium.cli import commands as commands
from podium.cli import exchanging as exchanging
from podium.cli import runs as runs
from podium.cli import searching as searching
from podium.cli import serving as serving
from podium.cli import tuning as tuning
from podium.cli.application import app as app
from podium.cli.application import main as main
from podium.cli.lab import app as lab

app.add_typer(lab, name="lab")
