"""Training steps in closed form, in parts: passes of a layer, and what passes between devices around them."""
