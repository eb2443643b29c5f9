"""Machines by which the nodes of one owner agree on one order: consensus, membership, and who may speak."""
