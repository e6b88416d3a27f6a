"""The page of the documentation for each command, which `--help` and errors name."""

from __future__ import annotations

from collections.abc import Sequence

import typer

PAGES = {
    "atlas": "explanation/atlas.md",
    "backup": "how-to/backups.md",
    "bounds": "explanation/theorems.md",
    "campaign": "tutorials/first-campaign.md",
    "demo": "how-to/studio.md",
    "evaluate": "how-to/off-policy.md",
    "export": "how-to/campaign-data.md",
    "growth": "explanation/drift.md",
    "head": "how-to/backups.md",
    "keys": "how-to/keys.md",
    "plan": "how-to/plan.md",
    "reproduce": "explanation/reproduction.md",
    "restore": "how-to/backups.md",
    "run": "how-to/studies.md",
    "serve": "how-to/deploy.md",
    "verify": "how-to/backups.md",
}
"""Pages in the folder `docs` of the repository, by command or group of commands."""
HOME = "Documentation: docs/index.md in the repository, which `make docs` builds as a site."


def add_pages(app: typer.Typer) -> None:
    """Name its page at the end of each command's help."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        command.epilog = f"Documentation: docs/{PAGES[name]}"
    for group in app.registered_groups:
        assert group.name is not None
        group.epilog = f"Documentation: docs/{PAGES[group.name]}"


def page_of(arguments: Sequence[str]) -> str | None:
    """Return the page of the command in some arguments, or None if there is no command."""
    return next((PAGES[word] for word in arguments if word in PAGES), None)
