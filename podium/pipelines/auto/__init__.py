"""AutoRanker, and what it chooses by: divisions of the queries, cross-validation, criteria."""
