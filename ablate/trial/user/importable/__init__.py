"""A folder for the path of Python, so that `ablate_user` is found in it."""
