"""Translate and poll price lists, spot prices, Capacity Block offerings and spot scores."""
