output "billing" {
  description = "For TRNBOT_AWS_BILLING"
  value       = local.billing
}

output "events" {
  description = "For TRNBOT_AWS_EVENTS"
  value       = aws_sqs_queue.events.url
}

output "streams" {
  description = "For TRNBOT_AWS_STREAM"
  value       = local.own_streams
}

output "permissions_policy" {
  description = "The policy for a role or a user that runs trnbot elsewhere"
  value       = aws_iam_policy.permissions.arn
}

output "bot_role" {
  description = "For the parameter Bot of ../cloudformation/member-role.yaml"
  value       = one(aws_iam_role.task[*].arn)
}
