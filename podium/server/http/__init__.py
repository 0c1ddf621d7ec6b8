"""HTTP: connections, bodies, who may ask, and the routes."""
