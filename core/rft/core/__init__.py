"""The vocabulary of Agent RFT: frozen data and pure functions. No I/O, no clock, no randomness."""
