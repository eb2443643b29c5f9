"""Where things rest: what a store promises (``base``), and the store in a SQLite file (``sqlite``)."""
