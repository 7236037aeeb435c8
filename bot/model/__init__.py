"""Name the nouns: frozen, unit in the name, money as `Decimal`, time as aware UTC."""
