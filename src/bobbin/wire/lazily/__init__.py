"""The bytes of the reactive protocol: frames in three forms, how streams carry them, the handshake, and signaling."""
