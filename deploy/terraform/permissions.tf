# What trnbot asks of AWS, as ../iam-policy.json lists it; its placeholders are filled in here, and a statement without a resource is left out.
locals {
  bucket_arns = concat(
    ["arn:${local.partition}:s3:::trnbot-${local.account}-*"],
    var.billing == null ? [] : ["arn:${local.partition}:s3:::${var.billing.bucket}"],
  )
  athena_arns = var.athena_results_bucket == "" ? [] : ["arn:${local.partition}:s3:::${var.athena_results_bucket}"]

  resources = {
    TrnbotApsWorkspace    = compact([var.workspace])
    TrnbotKmsKeys         = compact([var.key])
    TrnbotLogsLogs        = var.log_group == "" ? [] : ["arn:${local.partition}:logs:*:${local.account}:log-group:${var.log_group}:*"]
    TrnbotS3Bucket        = local.bucket_arns
    TrnbotS3Objects       = [for arn in local.bucket_arns : "${arn}/*"]
    TrnbotS3Results       = local.athena_arns
    TrnbotS3ResultObjects = [for arn in local.athena_arns : "${arn}/*"]
    TrnbotSqsQueues       = ["arn:${local.partition}:sqs:*:${local.account}:trnbot-events"]
    TrnbotStsRoles        = var.roles
  }

  declared = jsondecode(file("${path.module}/../iam-policy.json")).Statement
  granted = [
    for statement in local.declared : {
      Sid      = statement.Sid
      Effect   = statement.Effect
      Action   = statement.Action
      Resource = lookup(local.resources, statement.Sid, ["*"])
    } if length(lookup(local.resources, statement.Sid, ["*"])) > 0
  ]
}

resource "aws_iam_policy" "permissions" {
  name_prefix = "trnbot-"
  description = "What trnbot asks of AWS, and nothing else; attach it to the role that runs it elsewhere"
  policy      = jsonencode({ Version = "2012-10-17", Statement = local.granted })
}
