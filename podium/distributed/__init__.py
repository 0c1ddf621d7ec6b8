"""Training and scoring on a Dask cluster."""
