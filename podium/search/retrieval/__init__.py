"""Retrieval, the first stage: from a query to the k best documents of an index."""
