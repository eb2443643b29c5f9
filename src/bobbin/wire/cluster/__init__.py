"""The bytes of what a cluster says, keeps and copies."""
