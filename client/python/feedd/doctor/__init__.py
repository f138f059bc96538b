"""``python -m feedd.doctor SCRIPT``: reads a PyTorch script, without running it, and says what to write for feedd instead."""
