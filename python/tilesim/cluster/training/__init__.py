"""Parts of training steps in closed form: layers, and communication around them."""
