"""How bytes travel between two machines; what they mean is not known here."""
