"""The log that a node of a cluster writes ahead of everything it says, and the small durable files beside it."""
