"""Hold how an installation is set up: the settings file, the environment, and the routes."""
