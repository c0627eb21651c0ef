"""Standard output and standard error of the program."""

from rich.console import Console


class Terminal(Console):
    """A rich console that raises an error at a closed pipe, for the program's exit code."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False)

    def say_written(self, path: object, what: str = "") -> None:
        """Say what was written to which file, in one line of any length."""
        written = f"Written {what}" if what else "Written"
        self.print(f"{written} to {path}", soft_wrap=True, markup=False)

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`."""
        raise BrokenPipeError
