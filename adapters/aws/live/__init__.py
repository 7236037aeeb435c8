"""Read a live account: boto3's responses become the same nouns as a recording's.

By the same code.
"""
