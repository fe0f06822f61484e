"""Commands about what is used: `narthex unread` and `narthex queries`."""
