"""Commands about what is used: `narthex unread`."""
