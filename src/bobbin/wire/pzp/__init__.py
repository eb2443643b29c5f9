"""The wire of PZP peers: the extended secret handshake, the stream cipher in blocks, and muxrpc. Only computation."""
