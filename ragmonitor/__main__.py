"""`python -m ragmonitor` is the command `ragmonitor`."""

from ragmonitor.cli.app import main

if __name__ == "__main__":
    main()
