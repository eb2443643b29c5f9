"""A tour of Bobbin with real commands, every claim checked."""
