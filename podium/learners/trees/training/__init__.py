"""From gradients and hessians to trees: bins, histograms, splits, growth, boosting."""
