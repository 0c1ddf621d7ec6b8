"""What `podium demo` runs on: data written by our own code, so that nothing is downloaded."""
