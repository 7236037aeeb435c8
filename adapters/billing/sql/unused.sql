-- FOCUS: what a commitment left unused is a row of its own, and goes to the line of the fee that it is part of.
UPDATE label SET service = bought.service, usage_type = bought.usage_type, region = bought.region
FROM bought WHERE label.unused AND label.commitment = bought.commitment
