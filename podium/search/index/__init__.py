"""The index: postings, texts and links in files that never change, and a manifest that a commit replaces."""
