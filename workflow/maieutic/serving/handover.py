"""The environment variable by which a driver speaks to its server's processes (engine.py)."""

LOCKS = "MAIEUTIC_LOCKS"  # file descriptors that hold the locks of the server's GPUs
