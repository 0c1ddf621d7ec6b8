"""What is served: versions of models, tried before they are used, and swapped by one assignment."""
