"""The schemas of configuration, cards and registries."""
