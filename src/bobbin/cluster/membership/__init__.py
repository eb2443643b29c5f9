"""Who is there: probes, suspicion and gossip. It informs, and never gates consensus."""
