"""Drivers: what runs the pure part in a real world of clocks, processes and files."""
