"""Answer the cost: gross, credits, net and amortised."""
