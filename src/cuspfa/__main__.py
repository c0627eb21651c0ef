"""`python -m cuspfa` is the program `cuspfa`."""

from cuspfa.cli import main

if __name__ == "__main__":
    main()
