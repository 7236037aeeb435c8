# Interruptions of spot, ends of Capacity Blocks and AWS Health: a rule of this region and its queue.
resource "aws_sqs_queue" "events" {
  name                      = "trnbot-events"
  message_retention_seconds = 345600
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "events" {
  queue_url = aws_sqs_queue.events.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.events.arn
      Condition = { ArnEquals = { "aws:SourceArn" = aws_cloudwatch_event_rule.notices.arn } }
    }]
  })
}

resource "aws_cloudwatch_event_rule" "notices" {
  name        = "trnbot"
  description = "Interruptions of spot, ends of Capacity Blocks and AWS Health, for trnbot"
  event_pattern = jsonencode({
    source = ["aws.ec2", "aws.health"]
    detail-type = [
      "EC2 Spot Instance Interruption Warning",
      "EC2 Instance Rebalance Recommendation",
      "EC2 Capacity Reservation Instance Interruption Warning",
      "Capacity Block Expiration Warning",
      "Capacity Block Reservation Expiration Warning",
      "AWS Health Event",
    ]
  })
}

resource "aws_cloudwatch_event_target" "queue" {
  rule = aws_cloudwatch_event_rule.notices.name
  arn  = aws_sqs_queue.events.arn
}
