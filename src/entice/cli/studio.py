"""`entice demo`. Heavy imports wait inside, so that --help is quick."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    port: Annotated[int, typer.Option(help="Port to listen at; 0 is any free one.")] = 0,
) -> None:
    """Look at the studio, with a shop in it that is open.

    Starts a service on this machine with a database that is thrown away in the end, lets simulated
    shoppers come to a campaign, and prints the address of the studio to open in a browser. The
    address holds a key: whoever has it may do anything here. Ctrl-C ends it.

    With a database of your own, `entice serve` opens the same page.
    """
    from entice.studio.demo.demo import demo as show

    show(port, told=lambda text: print(text, flush=True))
