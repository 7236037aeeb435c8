"""Translate and poll the inventory of an account.

Instances, storage, clusters, quotas and launchers.
"""
