"""Another grader over stored rollouts: how rewards and rankings change, without touching the policy."""
