"""What `podium demo` runs on: data written by code, so that nothing is downloaded."""
