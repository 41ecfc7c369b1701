"""What is asked and played with, as pages and in notebooks."""
