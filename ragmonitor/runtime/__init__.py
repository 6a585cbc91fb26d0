"""What every part stands on: swallow-and-count, threads, forks, addresses."""
