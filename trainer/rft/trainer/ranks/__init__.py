"""Several processes that compute one step's gradient together. Rank 0 is the run; the others only compute."""
