"""Commands of simulations."""

COMMANDS = {
    "Simulated students": (
        "simulation.converse:simulate_conversations",
        "simulation.converse:measure_claims",
        "simulation.scores:score_simulation",
    ),
}
