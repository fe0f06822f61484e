"""Alerts: findings of rules, silences, and the notices that receivers get of them."""
