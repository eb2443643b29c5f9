"""The one door between bytes and messages: everything that comes from a peer is bounded and checked here."""
