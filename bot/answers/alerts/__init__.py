"""Answer about alerts, and take people's decisions and judgements of them."""
