"""Trees that several ranks grow together, each on its own rows: the steps of one machine, with sums between them."""
