"""Web pages that may be phishing: verdicts that arrive late, and a model trained on them."""
