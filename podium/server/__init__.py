"""Serving: an HTTP service for ranking and search, a page for people, and a client. `podium serve` runs it."""
