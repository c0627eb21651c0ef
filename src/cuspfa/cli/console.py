"""Where the program writes."""

from rich.console import Console


class Terminal(Console):
    """A rich console that leaves a closed pipe to the program's own exit codes."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False)

    def on_broken_pipe(self) -> None:
        """Pass it on."""
        raise BrokenPipeError
