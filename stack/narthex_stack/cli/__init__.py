"""The commands `narthex up`, `down`, `status` and `logs`, and their screen."""
