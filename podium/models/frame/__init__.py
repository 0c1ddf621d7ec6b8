"""The frame of every model: parameters, arguments, training, scoring, transforms, base models."""
