"""Features of a query and its candidate documents: LETOR's 46, and those that users declare in the same table."""
