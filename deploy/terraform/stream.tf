# Optionally, CloudWatch writes the metrics that trnbot reads to the bucket.
locals {
  streamed = {
    "ContainerInsights"           = []
    "Trn/Training"                = []
    "CWAgent"                     = ["mem_used_percent"]
    "/aws/sagemaker/TrainingJobs" = ["MemoryUtilization"]
    "AWS/EC2"                     = ["CPUUtilization", "NetworkIn", "NetworkOut", "StatusCheckFailed"]
    "AWS/EBS"                     = ["VolumeIdleTime", "VolumeReadBytes", "VolumeWriteBytes"]
    "AWS/FSx"                     = []
  }
}

resource "aws_cloudwatch_metric_stream" "trnbot" {
  count         = var.stream ? 1 : 0
  name          = "trnbot"
  role_arn      = aws_iam_role.stream[0].arn
  firehose_arn  = aws_kinesis_firehose_delivery_stream.trnbot[0].arn
  output_format = "json"

  dynamic "include_filter" {
    for_each = local.streamed
    content {
      namespace    = include_filter.key
      metric_names = include_filter.value
    }
  }
}

resource "aws_iam_role" "stream" {
  count              = var.stream ? 1 : 0
  name_prefix        = "trnbot-stream-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [local.trust["streams.metrics.cloudwatch.amazonaws.com"]] })
}

resource "aws_iam_role_policy" "stream" {
  count = var.stream ? 1 : 0
  role  = aws_iam_role.stream[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["firehose:PutRecord", "firehose:PutRecordBatch"]
      Resource = aws_kinesis_firehose_delivery_stream.trnbot[0].arn
    }]
  })
}

resource "aws_kinesis_firehose_delivery_stream" "trnbot" {
  count       = var.stream ? 1 : 0
  name        = "trnbot"
  destination = "extended_s3"

  extended_s3_configuration {
    bucket_arn          = aws_s3_bucket.trnbot.arn
    role_arn            = aws_iam_role.delivery[0].arn
    prefix              = "metrics/${local.region}/"
    error_output_prefix = "undelivered/${local.region}/"
    buffering_interval  = 60
    buffering_size      = 16
    compression_format  = "GZIP"
  }
}

resource "aws_iam_role" "delivery" {
  count              = var.stream ? 1 : 0
  name_prefix        = "trnbot-delivery-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [local.trust["firehose.amazonaws.com"]] })
}

resource "aws_iam_role_policy" "delivery" {
  count = var.stream ? 1 : 0
  role  = aws_iam_role.delivery[0].id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["s3:AbortMultipartUpload", "s3:GetBucketLocation", "s3:ListBucket", "s3:PutObject"]
      Resource = [aws_s3_bucket.trnbot.arn, "${aws_s3_bucket.trnbot.arn}/*"]
    }]
  })
}
