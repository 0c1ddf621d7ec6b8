"""What would spoil training or evaluation, found before it does."""
