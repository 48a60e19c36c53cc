"""What the tool gateway and the grader gateway share when they run as services of their own."""
