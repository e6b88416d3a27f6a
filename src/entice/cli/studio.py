"""`entice demo`. Heavy imports are inside the command, so that --help is fast."""

from __future__ import annotations

from typing import Annotated

import typer

from entice.extras import require


def demo(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1. 0 selects a free port.")] = 0,
) -> None:
    """Open the studio on a demo campaign with simulated visitors.

    Starts a service on this machine with a temporary database, and prints the address of the studio
    to open in a browser. Then simulates visitors to a campaign, and reproduces the paper in the
    background, for the Paper screen. The address contains a token that allows everything: do not
    share it. Ctrl-C stops the demo and deletes its data.

    To use the studio with your own database, run `entice serve`.
    """
    require("studio")
    print("Starting the studio …", flush=True)
    from entice.studio.demo.demo import demo as run_demo

    run_demo(port, report=lambda text: print(text, flush=True))
