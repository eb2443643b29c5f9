"""The folder of a lace: what is where, its settings, its keys."""
