"""Commands that fetch data and weights, and make items, labels and pairs."""

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
