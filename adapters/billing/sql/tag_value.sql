arg_min(value, list_position({names}, plain)) FILTER (WHERE list_contains({names}, plain)) AS {alias}
