"""Turn AWS's responses into nouns, live or recorded.

`api/` calls AWS, counts and prices the calls, and keeps the responses. `metrics/`, `inventory/`,
`prices/`, `bill/` and `logs/` each translate one subject, and poll it where it is no metric.
`recording/` and `live/` are the two sources built from them; `live/` polls the metrics tick by
tick.
"""
