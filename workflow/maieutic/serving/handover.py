"""Environment variables by which a driver speaks to its server's processes (engine.py)."""

PARENT = "MAIEUTIC_PARENT"  # pid of the process that starts this one
LOCKS = "MAIEUTIC_LOCKS"  # file descriptors that hold the locks of the server's GPUs
