"""Sources and sinks as authors declare them; connectors are in `narthex._connectors`."""
