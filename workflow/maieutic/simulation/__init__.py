"""Simulations: a model plays the student of a tutor's conversation. All figures are marked as simulated."""

COMMANDS = {
    "Simulated students": (
        "simulation.converse:simulate_conversations",
        "simulation.converse:measure_claims",
        "simulation.scores:score_simulation",
    ),
}
