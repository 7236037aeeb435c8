"""Read a live account: boto3's responses become the same nouns as a recording's, by the same code."""
