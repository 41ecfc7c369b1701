"""Many runs: tuning, sweeps, coverage, profiles."""
