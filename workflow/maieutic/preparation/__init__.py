"""Stage that fetches data and weights, and makes items, labels and preference pairs from them."""

COMMANDS = {
    "Data": (
        "preparation.fetch:fetch_dataset",
        "preparation.pictures:fetch_pictures",
        "preparation.weights:prepare_weights",
        "preparation.items:make_items",
        "preparation.labels:make_labels",
        "preparation.pairs:make_pairs",
    ),
}
