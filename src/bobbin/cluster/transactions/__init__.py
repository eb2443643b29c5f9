"""Two-phase commit: coordinator, participant, locks and deadlocks, as machines without a clock."""
