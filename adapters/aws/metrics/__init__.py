"""Turn points of CloudWatch metrics into grids of visible time."""
