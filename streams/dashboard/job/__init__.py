"""The edge of the room."""
