"""Analysis: the terms of a text, in documents and in queries alike."""
