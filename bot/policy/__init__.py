"""Hold the policy that admins tune.

One schema makes the form, the validation, the docs page and the file.
"""
