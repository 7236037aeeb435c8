"""Translate and poll the inventory of an account: instances, storage, clusters, quotas and launchers."""
