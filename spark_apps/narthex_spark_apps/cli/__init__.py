"""Commands of this room: `narthex supervisor`, `snapshots`, `quarantine` and `late`."""
