"""The command line. `ragmonitor.cli.app` is where it starts."""
