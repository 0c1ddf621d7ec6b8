"""Documents: records and files of many kinds in, each document as an id, texts and links."""
