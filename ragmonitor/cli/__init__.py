"""The command line: score, replay, demo, doctor. `ragmonitor.cli.app` is where it starts."""
