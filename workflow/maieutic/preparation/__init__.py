"""Stage that fetches data and weights, and makes items, labels and preference pairs from them."""
