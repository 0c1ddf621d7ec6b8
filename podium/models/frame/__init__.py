"""The frame of every model: parameters, arguments, training, scoring, transforms, init models."""
