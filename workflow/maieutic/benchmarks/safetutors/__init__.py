"""Code of SafeTutors: loaders of single turns and scripted conversations, and a parser of revealed answers."""
