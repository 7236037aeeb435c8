"""Hold the policy that admins tune: one schema makes the form, the validation, the docs page and the file."""
