"""From rows to scores: trees in flat arrays, and the ways through them. Nothing here knows how trees were trained."""
