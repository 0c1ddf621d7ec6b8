"""Support vector machines for ranking: a margin between the documents of every pair."""
